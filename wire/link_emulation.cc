// See link_emulation.h.
#include "wire/link_emulation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shoal::wire {
namespace {

using Units = std::vector<std::pair<std::string_view, double>>;

const Units& rates() {  // bytes per second
  static const Units units = {{"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}};
  return units;
}

const Units& times() {  // seconds
  static const Units units = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  return units;
}

Error refuse(std::string_view field, std::string_view given, const Units& units) {
  std::string names;
  for (const auto& [name, factor] : units) names += (names.empty() ? "" : ", ") + std::string(name);
  return Error{
      Code::kValidation,
      "must be a number of 0 or more and a unit (" + names + "), got '" + std::string(given) + "'",
      std::string(field), "for example up=200mbit,down=200mbit,rtt=80ms,jitter=5ms"};
}

Result<double> parse_amount(std::string_view field, std::string_view text, const Units& units) {
  double number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(parsed.ptr, text.data() + text.size() - parsed.ptr);
  const auto it =
      std::find_if(units.begin(), units.end(), [&](const auto& u) { return u.first == unit; });
  if (parsed.ec != std::errc() || it == units.end() || !(number >= 0) || number > 1e9) {
    return refuse(field, text, units);
  }
  return number * it->second;
}

Status set_field(std::string_view name, std::string_view value, LinkOptions& options) {
  const bool rate = name == "up" || name == "down";
  if (!rate && name != "rtt" && name != "jitter") {
    return Error{Code::kValidation, "is no field of a link", std::string(name),
                 "fields are up, down, rtt and jitter"};
  }
  const auto amount = parse_amount(name, value, rate ? rates() : times());
  if (!amount.ok()) return amount.error();
  if (rate && *amount == 0) return refuse(name, value, rates());  // nothing would ever pass
  if (name == "up") options.up_bytes_per_s = *amount;
  if (name == "down") options.down_bytes_per_s = *amount;
  if (name == "rtt") options.rtt = seconds_f(*amount);
  if (name == "jitter") options.jitter = seconds_f(*amount);
  return {};
}

}  // namespace

Result<LinkOptions> parse_link(std::string_view text) {
  LinkOptions options;
  std::set<std::string_view> seen;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    if (!seen.insert(name).second) {
      return Error{Code::kValidation, "is given twice", std::string(name), "give each field once"};
    }
    if (Status status = set_field(name, value, options); !status.ok()) return status.error();
    if (comma == std::string_view::npos) return options;
    text.remove_prefix(comma + 1);
  }
}

Instant LinkEmulation::pass(Instant& free, Instant now, std::int64_t bytes, double bytes_per_s) {
  if (bytes_per_s <= 0) return now;
  free = std::max(free, now) + seconds_f(static_cast<double>(bytes) / bytes_per_s);
  return free;
}

Instant LinkEmulation::up(Instant now, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Instant left = pass(up_free_, now, bytes, options_.up_bytes_per_s);
  Duration delay = options_.rtt / 2;
  if (options_.jitter.ns > 0) {
    delay = delay + seconds_f(options_.jitter.seconds() * prng_.normal());
    delay = std::max(delay, Duration{});
  }
  return left + delay;
}

Instant LinkEmulation::down(Instant now, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const bool late = down_free_ < now && now < down_free_ + kLateMax;
  return std::max(now, pass(down_free_, late ? down_free_ : now, bytes, options_.down_bytes_per_s));
}

Instant LinkEmulation::up_free() {
  const std::lock_guard lock(mutex_);
  return up_free_;
}

Instant LinkEmulation::down_free() {
  const std::lock_guard lock(mutex_);
  return down_free_;
}

}  // namespace shoal::wire
