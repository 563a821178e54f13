// Serves the dashboard. The page itself is asked for again each time (ETag, 304); the assets carry
// the hash of their content in the name and are kept by the browser forever. Every path that the
// page's own router knows is answered with the page; which ones those are is in routes.cc, so that
// a wrong address stays a 404.
#include "coordinator/service/http/routes/dashboard.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "coordinator/service/http/routes/api.h"

namespace shoal::coordinator::rest {
namespace {

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// "q=0", "q=0.0", "q=0.000".
bool quality_is_zero(std::string_view parameter) {
  parameter = trimmed(parameter);
  if (!parameter.starts_with("q=") && !parameter.starts_with("Q=")) return false;
  return parameter.substr(2).find_first_not_of("0.") == std::string_view::npos;
}

std::string_view type_of(std::string_view path) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml"},
  };
  for (const auto& [ending, type] : kTypes)
    if (path.ends_with(ending)) return type;
  return "application/octet-stream";
}

const DashboardFile* find_file(std::string_view path) {
  for (const DashboardFile& file : dashboard_files())
    if (file.path == path) return &file;
  return nullptr;
}

// If-None-Match is a list; a weak comparison, as RFC 9110 asks for.
bool holds_tag(std::string_view list, std::string_view tag) {
  return trimmed(list) == "*" || list.find(tag) != std::string_view::npos;
}

Response file_response(const Request& request, const DashboardFile& file, std::string caching) {
  const bool gzip = accepts_gzip(request.accept_encoding);
  const std::string tag = "\"" + std::string(file.digest) + (gzip ? "-gz\"" : "\"");
  Response response;
  response.content_type = type_of(file.path);
  response.headers = {
      {"ETag", tag}, {"Cache-Control", std::move(caching)}, {"Vary", "Accept-Encoding"}};
  if (holds_tag(request.if_none_match, tag)) {
    response.status = 304;
    return response;
  }
  if (gzip) response.headers.emplace_back("Content-Encoding", "gzip");
  response.body = gzip ? file.gzip : file.identity;
  return response;
}

}  // namespace

bool accepts_gzip(std::string_view accept_encoding) {
  bool any = false;
  while (!accept_encoding.empty()) {
    const std::string_view item = accept_encoding.substr(0, accept_encoding.find(','));
    accept_encoding.remove_prefix(std::min(accept_encoding.size(), item.size() + 1));
    const std::size_t semicolon = item.find(';');
    const std::string_view name = trimmed(item.substr(0, semicolon));
    const bool refused =
        semicolon != std::string_view::npos && quality_is_zero(item.substr(semicolon + 1));
    if (same_word(name, "gzip")) return !refused;
    if (name == "*") any = !refused;
  }
  return any;
}

namespace api {

Result<Response> dashboard_page(Context&, const Request& request) {
  const DashboardFile* const page = find_file("index.html");
  if (page == nullptr) {
    return Error{Code::kNotFound, "this coordinator was built without the dashboard", "",
                 "the REST API is at /api/v1; web/build.sh makes the dashboard"};
  }
  return file_response(request, *page, "no-cache");
}

Result<Response> dashboard_asset(Context&, const Request& request) {
  const DashboardFile* const file = find_file("assets/" + request.part("path"));
  if (file == nullptr) {
    return Error{Code::kNotFound, "there is no asset \"" + request.part("path") + "\"", "",
                 "load the page again: it may be of an older coordinator"};
  }
  return file_response(request, *file, "public, max-age=31536000, immutable");
}

}  // namespace api
}  // namespace shoal::coordinator::rest
