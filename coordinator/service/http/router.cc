#include "coordinator/service/http/router.h"

#include <algorithm>

#include "coordinator/service/http/url.h"

namespace shoal::coordinator::rest {
namespace {

// "/a/b" -> "a", leaving "/b". Paths begin with '/'.
std::string_view take_segment(std::string_view& path) {
  path.remove_prefix(1);
  const std::string_view segment = path.substr(0, path.find('/'));
  path.remove_prefix(segment.size());
  return segment;
}

}  // namespace

bool match_path(std::string_view pattern, std::string_view path,
                std::vector<std::pair<std::string, std::string>>& parts) {
  std::vector<std::pair<std::string, std::string>> found;
  while (!pattern.empty() && !path.empty()) {
    const std::string_view want = take_segment(pattern);
    if (want.ends_with("...}")) {
      const auto rest = percent_decode(path.substr(1), false);
      if (!rest || rest->empty()) return false;
      found.emplace_back(want.substr(1, want.size() - 5), *rest);
      path = {};
      break;
    }
    const std::string_view have = take_segment(path);
    if (want.starts_with('{')) {
      const auto value = percent_decode(have, false);
      if (!value || value->empty()) return false;
      found.emplace_back(want.substr(1, want.size() - 2), *value);
    } else if (want != have) {
      return false;
    }
  }
  if (!pattern.empty() || !path.empty()) return false;
  parts.insert(parts.end(), found.begin(), found.end());
  return true;
}

Match match_route(const std::vector<Route>& table, Request& request) {
  Match match;
  for (const Route& route : table) {
    std::vector<std::pair<std::string, std::string>> parts;
    if (!match_path(route.path, request.path, parts)) continue;
    if (route.method == request.method) {
      request.parts = std::move(parts);
      match.route = &route;
      return match;
    }
    match.allowed.push_back(route.method);
    if (route.method == "GET") match.allowed.push_back("HEAD");
  }
  if (!match.allowed.empty()) match.allowed.push_back("OPTIONS");
  return match;
}

}  // namespace shoal::coordinator::rest
