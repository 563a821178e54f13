#include "base/log_lines.h"

#include <algorithm>

namespace shoal {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool contains(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end() ||
         part.empty();
}

}  // namespace

bool fits(const LogQuery& query, const LogLine& line) {
  if (line.level < query.level_min) return false;
  if (query.after && line.at <= *query.after) return false;
  if (!query.source.empty() && line.source != query.source) return false;
  const auto& wanted = query.replicas;
  if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), line.replica) == wanted.end())
    return false;
  return contains(line.text, query.text);
}

}  // namespace shoal
