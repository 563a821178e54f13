#include "base/link_options.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shoal {
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

}  // namespace shoal
