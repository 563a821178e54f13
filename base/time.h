// Instants and durations in nanoseconds. There is no now() here: a driver reads its clock and
// passes the time in. Drivers use Unix time taken once at start plus a steady clock, so instants
// that were stored before a restart stay comparable.
#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

namespace shoal {

struct Duration {
  std::int64_t ns = 0;
  auto operator<=>(const Duration&) const = default;
  constexpr double seconds() const { return static_cast<double>(ns) * 1e-9; }
  constexpr std::int64_t ms() const { return ns / 1'000'000; }
};

constexpr Duration nanoseconds(std::int64_t n) { return {n}; }
constexpr Duration microseconds(std::int64_t n) { return {n * 1'000}; }
constexpr Duration milliseconds(std::int64_t n) { return {n * 1'000'000}; }
constexpr Duration seconds(std::int64_t n) { return {n * 1'000'000'000}; }
constexpr Duration seconds_f(double s) { return {static_cast<std::int64_t>(s * 1e9)}; }

constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
constexpr Duration operator*(Duration a, std::int64_t k) { return {a.ns * k}; }
constexpr Duration operator/(Duration a, std::int64_t k) { return {a.ns / k}; }

// Unix time in nanoseconds.
struct Instant {
  std::int64_t ns = 0;
  auto operator<=>(const Instant&) const = default;
  constexpr std::int64_t unix_ms() const { return ns / 1'000'000; }
};

template <typename T>
concept Time = std::is_same_v<T, Instant> || std::is_same_v<T, Duration>;

constexpr Instant from_unix_ms(std::int64_t ms) { return {ms * 1'000'000}; }
constexpr Instant operator+(Instant t, Duration d) { return {t.ns + d.ns}; }
constexpr Instant operator-(Instant t, Duration d) { return {t.ns - d.ns}; }
constexpr Duration operator-(Instant a, Instant b) { return {a.ns - b.ns}; }

}  // namespace shoal
