#include "base/number_text.h"

#include <charconv>

namespace shoal {
namespace {

std::string short_text(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
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

}  // namespace shoal
