// Paging, server-sent events and the reading of optional fields.
#include "cli/api.h"

#include "base/host_port.h"
#include "base/wire_text.h"
#include "cli/event_reader.h"
#include "cli/versions.h"

namespace shoal::cli {
namespace {

std::string normalized_origin(std::string address) {
  if (address.find("://") == std::string::npos) {
    if (!address.empty() && address[0] == ':') address = "127.0.0.1" + address;
    address = "http://" + address;
  }
  const std::size_t scheme_end = address.find("://") + 3;
  while (address.size() > scheme_end && address.back() == '/') address.pop_back();
  return address;
}

}  // namespace

Status check_origin(const std::string& origin) {
  const std::size_t start = origin.find("://") + 3;
  const std::string authority = origin.substr(start, origin.find('/', start) - start);
  const auto bracket = authority.find(']');
  const auto colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  const bool has_port = colon != std::string::npos && colon + 1 < authority.size();
  if (authority.empty() || authority[0] == ':') {
    return Error{Code::kInvalidArgument, "has no host", "--addr",
                 "give it as http://host:port, for example http://127.0.0.1:7070"};
  }
  if (has_port || origin.starts_with("https://")) return {};
  const std::string host = authority.substr(0, colon);
  return Error{Code::kInvalidArgument, "'" + host + "' has no port", "--addr",
               "give it as http://host:port, for example http://" + host + ":7070"};
}

Api::Api(const std::string& address, std::string own_version, Credentials credentials)
    : origin_(normalized_origin(address)),
      own_version_(std::move(own_version)),
      credentials_(std::move(credentials)) {}

Result<Json> Api::parsed(const HttpResponse& response, const Locate& locate) const {
  if (response.status < 200 || response.status >= 300) {
    return with_versions(error_of_response(response, locate));
  }
  Json body = Json::parse(response.body, nullptr, false);
  if (body.is_discarded()) {
    return Error{Code::kInternal, "the coordinator's answer is not JSON", "",
                 "is that address a Shoal coordinator?"};
  }
  return body;
}

// An older coordinator answers an unknown route with 404, and refuses an unknown field.
Error Api::with_versions(Error error) const {
  const bool may_be_unknown = error.code == Code::kNotFound || error.code == Code::kValidation ||
                              error.code == Code::kInternal;
  if (own_version_.empty() || !may_be_unknown) return error;
  HttpRequest request;
  request.url = url("/version");
  request.silence_limit_s = 5;
  const auto response = exchange(request);
  if (!response || response->status != 200) return error;
  const Json theirs = Json::parse(response->body, nullptr, false);
  const std::string advice = version_advice(own_version_, text_at(theirs, "version"));
  if (!advice.empty()) error.remedy += (error.remedy.empty() ? "" : "; ") + advice;
  return error;
}

Result<HttpResponse> Api::exchange(const HttpRequest& request, const HttpSink& sink) const {
  if (Status good = check_origin(origin_); !good) return good.error();
  if (!credentials_.problem.ok()) return credentials_.problem.error();
  if (Status good = check_line(); !good) return good.error();
  HttpRequest shown = request;
  shown.token = credentials_.token;
  shown.ca = credentials_.ca;
  return send(shown, sink);
}

Status Api::check_line() const {
  const bool clear = origin_.starts_with("http://") && !is_loopback();
  if (!clear || credentials_.token.empty() || credentials_.clear_allowed) return {};
  return Error{Code::kInvalidArgument, "a token may not be sent over plain HTTP to another host",
               "--addr", "write https:// in place of http://, and give the CA with --ca"};
}

bool Api::is_loopback() const {
  std::string host = origin_.substr(origin_.find("://") + 3);
  const auto bracket = host.find(']');
  const auto colon = bracket == std::string::npos ? host.find(':') : host.find(':', bracket);
  return is_loopback_host(host.substr(0, colon));
}

Result<Json> Api::get(const std::string& path) const {
  HttpRequest request;
  request.url = url(path);
  auto response = exchange(request);
  if (!response) return response.error();
  return parsed(*response, {});
}

Result<Json> Api::post(const std::string& path, const std::string& body,
                       const std::string& content_type, const Locate& locate) const {
  return send_body("POST", path, body, content_type, locate);
}

Result<Json> Api::remove(const std::string& path) const {
  return send_body("DELETE", path, {}, "application/json", {});
}

Result<Json> Api::put(const std::string& path, const std::string& bytes) const {
  return send_body("PUT", path, bytes, "application/octet-stream", {});
}

Result<Json> Api::patch(const std::string& path, const Json& change) const {
  return send_body("PATCH", path, change.dump(), "application/json", {});
}

Result<Json> Api::send_body(const char* method, const std::string& path, const std::string& body,
                            const std::string& content_type, const Locate& locate) const {
  HttpRequest request;
  request.method = method;
  request.url = url(path);
  request.body = body;
  request.content_type = content_type;
  auto response = exchange(request);
  if (!response) return response.error();
  return parsed(*response, locate);
}

Result<Json> Api::list(const std::string& path, std::size_t max) const {
  Json all = Json::array();
  std::string cursor;
  const std::string separator = path.find('?') == std::string::npos ? "?" : "&";
  const std::size_t limit = max == 0 ? 500 : std::min<std::size_t>(max, 500);
  do {
    const std::string page_path = path + separator + "limit=" + std::to_string(limit) +
                                  (cursor.empty() ? "" : "&cursor=" + url_escape(cursor));
    auto page = get(page_path);
    if (!page) return page.error();
    const Json* items = at_path(*page, "items");
    if (!items || !items->is_array()) {
      return Error{Code::kInternal, "the coordinator sent no list for " + path, "", ""};
    }
    for (const Json& item : *items) all.push_back(item);
    const Json* next = at_path(*page, "next_cursor");
    cursor = next && next->is_string() ? next->get<std::string>() : "";
  } while (!cursor.empty() && (max == 0 || all.size() < max));
  Json result;
  result["items"] = std::move(all);
  return result;
}

Status Api::download(const std::string& path, std::int64_t from, const HttpSink& sink) const {
  HttpRequest request;
  request.url = url(path);
  request.accept = "*/*";
  request.range_from = from;
  auto response = exchange(request, sink);
  if (!response) return response.error();
  if (response->status < 200 || response->status >= 300) return error_of_response(*response);
  return {};
}

Status Api::follow(const std::string& path, const std::string& last_id,
                   const std::function<bool(const std::string&, const std::string&)>& sink) const {
  HttpRequest request;
  request.url = url(path);
  request.accept = "text/event-stream";
  request.last_event_id = last_id;
  request.silence_limit_s = 60;  // the server sends a heartbeat at least every 15 s
  EventReader reader(sink);
  auto response =
      exchange(request, [&](int, std::string_view bytes) { return reader.feed(bytes); });
  if (!response) return response.error();
  if (reader.too_long()) {
    return Error{Code::kDataLoss, "the server sends an event without end", "--addr",
                 "does a coordinator answer there?"};
  }
  if (response->status < 200 || response->status >= 300) return error_of_response(*response);
  return {};
}

bool Api::answers(const std::string& absolute_path) const {
  HttpRequest request;
  request.url = origin_ + absolute_path;
  request.silence_limit_s = 5;
  const auto response = exchange(request);
  return response.ok() && response->status >= 200 && response->status < 300;
}

const Json* at_path(const Json& object, std::string_view slashed_path) {
  const Json* node = &object;
  while (!slashed_path.empty()) {
    const auto slash = slashed_path.find('/');
    const std::string key(slashed_path.substr(0, slash));
    slashed_path = slash == std::string_view::npos ? "" : slashed_path.substr(slash + 1);
    if (!node->is_object()) return nullptr;
    const auto found = node->find(key);
    if (found == node->end() || found->is_null()) return nullptr;
    node = &*found;
  }
  return node;
}

std::string text_at(const Json& object, std::string_view slashed_path, std::string fallback) {
  const Json* node = at_path(object, slashed_path);
  if (!node) return fallback;
  if (node->is_string()) {
    const auto& text = node->get_ref<const std::string&>();
    return text.empty() ? fallback : shown_text(text, true);
  }
  return node->dump();
}

double number_at(const Json& object, std::string_view slashed_path, double fallback) {
  const Json* node = at_path(object, slashed_path);
  if (!node) return fallback;
  if (node->is_number()) return node->get<double>();
  if (node->is_string()) {  // 64-bit numbers may travel as text
    char* end = nullptr;
    const std::string text = node->get<std::string>();
    const double value = std::strtod(text.c_str(), &end);
    return end != text.c_str() ? value : fallback;
  }
  return fallback;
}

}  // namespace shoal::cli
