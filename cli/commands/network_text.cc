#include "cli/commands/network_text.h"

#include <algorithm>
#include <vector>

#include "cli/format.h"
#include "cli/table.h"

namespace shoal::cli {
namespace {

struct Line {
  std::string from, to;
  const Json* link;
};

std::string rate_of(const Json& link) {
  const double bytes = number_at(link, "bytes_per_second", 0);
  return bytes > 0 ? human_bit_rate(8 * bytes) : "-";
}

std::string round_trip_of(const Json& link) {
  const double seconds = number_at(link, "round_trip_s", 0);
  return seconds > 0 ? fixed(seconds * 1e3, 1) + " ms" : "-";
}

// An older coordinator says only whether it was reached.
std::string way_of(const Json& link) {
  const std::string way = text_at(link, "way", "");
  if (way.empty() || way == "unknown")
    return text_at(link, "reached") == "false" ? "unreachable" : "-";
  return way;
}

bool is_before(const Line& one, const Line& other) {
  return one.from != other.from ? comes_before(one.from, other.from)
                                : comes_before(one.to, other.to);
}

}  // namespace

std::string network_text(const Json& links, const std::map<std::string, std::string>& names,
                         bool color) {
  const auto name_of = [&](const Json& link, const char* end) {
    const auto known = names.find(text_at(link, end));
    return known == names.end() ? text_at(link, end) : known->second;
  };
  std::vector<Line> lines;
  for (const Json& link : links) {
    if (text_at(link, "from") == text_at(link, "to")) continue;
    lines.push_back({name_of(link, "from"), name_of(link, "to"), &link});
  }
  std::sort(lines.begin(), lines.end(), is_before);
  Table table({"FROM", "TO", "WAY", ">BANDWIDTH", ">ROUND TRIP", ">MEASURED"});
  for (const Line& line : lines) {
    table.add({line.from, line.to, way_of(*line.link), rate_of(*line.link),
               round_trip_of(*line.link),
               human_duration(number_at(*line.link, "age_s", 0)) + " ago"});
  }
  return table.empty() ? std::string() : table.render(color);
}

}  // namespace shoal::cli
