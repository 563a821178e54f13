#include "base/number_text.h"

#include <charconv>
#include <cmath>
#include <iterator>

namespace shoal {
namespace {

std::string short_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// At most the number of a double's digits before the point, and `digits` behind it.
std::string fixed_text(double value, int digits) {
  char text[340];
  return {text,
          std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits).ptr};
}

}  // namespace

std::string number_problem(const std::string& text, double least, double most) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  const bool good =
      read.ec == std::errc() && read.ptr == end && value >= least && value <= most;  // not of NaN
  if (good) return {};
  return "must be a number from " + short_text(least) + " to " + short_text(most) + ", got " + text;
}

std::string three_figures(double value) {
  const double size = std::fabs(value);
  return fixed_text(value, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

std::string size_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (std::fabs(bytes) >= 999.5 && unit + 1 < std::size(kUnits)) bytes /= 1000, ++unit;
  return (unit == 0 ? fixed_text(bytes, 0) : three_figures(bytes)) + " " + kUnits[unit];
}

}  // namespace shoal
