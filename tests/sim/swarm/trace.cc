// Reading rows one by one; the first bad one ends it.
#include "tests/sim/swarm/trace.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace shoal::sim::swarm {
namespace {

constexpr double kSecondsMax = 1e9;  // far above any run, far below an overflow

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What stands before the separator; `text` keeps what is behind it.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view first = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return first;
}

std::optional<MembershipEvent> parse_row(std::string_view row) {
  const auto at = number<double>(take(row, ','));
  const std::string_view what = take(row, ',');
  const auto agent = number<std::int32_t>(row);
  if (!at || !agent || (what != "add" && what != "remove")) return std::nullopt;
  if (!std::isfinite(*at) || *at < 0 || *at > kSecondsMax || *agent < 0) return std::nullopt;
  return MembershipEvent{Instant{} + seconds_f(*at), what == "add", *agent};
}

Error bad_line(std::int64_t line, const std::string& what) {
  return {Code::kInvalidArgument, "line " + std::to_string(line) + ": " + what, "", ""};
}

}  // namespace

Result<std::vector<MembershipEvent>> parse_trace(std::string_view text) {
  std::vector<MembershipEvent> rows;
  for (std::int64_t line = 1; !text.empty(); ++line) {
    std::string_view row = take(text, '\n');
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty() || row.starts_with('#')) continue;
    const auto parsed = parse_row(row);
    if (!parsed) {
      return bad_line(line, "not 'seconds,add|remove,agent': '" + std::string(row) + "'");
    }
    if (!rows.empty() && parsed->at < rows.back().at) {
      return bad_line(line, "its time is before that of the row above: '" + std::string(row) + "'");
    }
    rows.push_back(*parsed);
  }
  return rows;
}

}  // namespace shoal::sim::swarm
