// Formatting for people. Three significant figures are enough everywhere: a table is read at a
// glance.
#include "cli/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <numeric>

#include "base/number_text.h"

namespace shoal::cli {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string four_digits(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string human_bit_rate(double bits_per_s) {
  static constexpr const char* kUnits[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s"};
  std::size_t unit = 0;
  while (bits_per_s >= 999.5 && unit + 1 < std::size(kUnits)) bits_per_s /= 1000, ++unit;
  return three_figures(bits_per_s) + " " + kUnits[unit];
}

std::string plural(std::int64_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

bool comes_before(std::string_view one, std::string_view other) {
  const auto digits = [](std::string_view text) {
    const auto end = text.find_first_not_of("0123456789");
    return text.substr(0, end);
  };
  while (!one.empty() && !other.empty()) {
    const std::string_view a = digits(one), b = digits(other);
    if (!a.empty() && !b.empty()) {
      if (a != b) return a.size() != b.size() ? a.size() < b.size() : a < b;
    } else if (one[0] != other[0]) {
      return one[0] < other[0];
    }
    one.remove_prefix(std::max<std::size_t>(1, a.size()));
    other.remove_prefix(std::max<std::size_t>(1, b.size()));
  }
  return one.empty() && !other.empty();
}

std::string human_count(double count) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (std::fabs(count) >= 999.5 && unit + 1 < std::size(kUnits)) count /= 1000, ++unit;
  return (unit == 0 ? fixed(count, 0) : three_figures(count)) + kUnits[unit];
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 1) return fixed(seconds * 1000, 0) + " ms";
  if (seconds < 10) return fixed(seconds, 1) + " s";
  const auto whole = static_cast<long long>(seconds + 0.5);
  char text[64];
  if (whole < 60) {
    std::snprintf(text, sizeof text, "%lld s", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof text, "%lldm %02llds", whole / 60, whole % 60);
  } else if (whole < 48 * 3600) {
    std::snprintf(text, sizeof text, "%lldh %02lldm", whole / 3600, whole % 3600 / 60);
  } else {
    std::snprintf(text, sizeof text, "%lldd %02lldh", whole / 86400, whole % 86400 / 3600);
  }
  return text;
}

std::optional<double> parse_rfc3339(std::string_view text) {
  std::tm parts{};
  int consumed = 0;
  const std::string copy(text);
  const int fields =
      std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &consumed);
  if (fields != 6 || copy.empty() || copy.back() != 'Z') return std::nullopt;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  double fraction = 0;
  if (copy[consumed] == '.') {
    fraction = std::strtod(copy.c_str() + consumed, nullptr);
  }
  return static_cast<double>(timegm(&parts)) + fraction;
}

std::string human_age(std::string_view rfc3339, double now_unix_s) {
  const auto at = parse_rfc3339(rfc3339);
  if (!at) return "-";
  const double age = now_unix_s - *at;
  return age < 1 ? "now" : human_duration(age) + " ago";
}

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best ? std::optional(*best) : std::nullopt;
}

}  // namespace shoal::cli
