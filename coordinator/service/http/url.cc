#include "coordinator/service/http/url.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/base64.h"
#include "base/text.h"

namespace shoal::coordinator::rest {
namespace {

constexpr std::string_view kCursorVersion = "c1";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool split_query(std::string_view text, Request& request) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    const auto key = percent_decode(pair.substr(0, equals), true);
    const auto value = percent_decode(
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true);
    if (!key || !value) return false;
    request.query.emplace_back(*key, *value);
  }
  return true;
}

Result<std::int64_t> read_cursor(const std::string& text, std::string_view list) {
  const auto bytes = from_base64url(text);
  const std::size_t first = bytes ? bytes->find(':') : std::string::npos;
  const std::size_t second = bytes ? bytes->rfind(':') : std::string::npos;
  const auto key = first < second && second != std::string::npos
                       ? parse_integer(std::string_view(*bytes).substr(second + 1))
                       : std::nullopt;
  if (!key || *key < 0)
    return bad_query("cursor", "must be a next_cursor of an earlier page, got \"" + text + "\"");
  if (bytes->substr(0, first) != kCursorVersion ||
      bytes->substr(first + 1, second - first - 1) != list) {
    return Error{Code::kIncompatible, "the cursor belongs to another list or an older version",
                 "/query/cursor", "start again without a cursor"};
  }
  return *key;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    out.push_back(c);
  }
  return out;
}

bool split_target(std::string_view target, Request& request) {
  if (target.empty() || target.front() != '/') return false;
  target = target.substr(0, target.find('#'));
  const std::size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  return mark == std::string_view::npos || split_query(target.substr(mark + 1), request);
}

std::string make_cursor(std::string_view list, std::int64_t key) {
  return base64url(std::string(kCursorVersion) + ":" + std::string(list) + ":" +
                   std::to_string(key));
}

Result<PageRequest> read_page(const Request& request, std::string_view list, bool newest_first) {
  PageRequest page;
  const auto limit = read_integer(request, "limit", 1, 500, page.limit);
  if (!limit) return limit.error();
  page.limit = static_cast<int>(limit.value());
  page.newest_first = newest_first;
  if (const std::string* order = request.query_value("order")) {
    if (*order != "asc" && *order != "desc")
      return bad_query("order", "must be asc or desc, got \"" + *order + "\"");
    page.newest_first = *order == "desc";
  }
  if (const std::string* cursor = request.query_value("cursor")) {
    const auto key = read_cursor(*cursor, list);
    if (!key) return key.error();
    page.after = key.value();
  }
  return page;
}

Json page_json(Json items, const std::optional<std::int64_t>& next, std::string_view list) {
  Json json;
  json["items"] = std::move(items);
  json["next_cursor"] = next ? Json(make_cursor(list, *next)) : Json(nullptr);
  return json;
}

Result<std::int64_t> read_integer(const Request& request, std::string_view name, std::int64_t low,
                                  std::int64_t high, std::int64_t fallback) {
  const std::string* text = request.query_value(name);
  if (text == nullptr) return fallback;
  const auto value = parse_integer(*text);
  if (!value || *value < low || *value > high) {
    return bad_query(name, "must be a whole number from " + std::to_string(low) + " to " +
                               std::to_string(high) + ", got \"" + *text + "\"");
  }
  return *value;
}

Result<std::optional<double>> read_number(const Request& request, std::string_view name) {
  const std::string* text = request.query_value(name);
  if (text == nullptr) return std::optional<double>();
  double value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(value))
    return bad_query(name, "must be a finite number, got \"" + *text + "\"");
  return std::optional<double>(value);
}

Result<bool> read_flag(const Request& request, std::string_view name) {
  const std::string* text = request.query_value(name);
  if (text == nullptr || *text == "false" || *text == "0") return false;
  if (text->empty() || *text == "true" || *text == "1") return true;
  return bad_query(name, "must be true or false, got \"" + *text + "\"");
}

Error bad_query(std::string_view name, std::string message) {
  return Error{Code::kInvalidArgument, std::move(message), "/query/" + std::string(name), ""};
}

Status check_query_names(const Request& request, const std::vector<std::string_view>& known) {
  for (const auto& [name, value] : request.query) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    Error error = bad_query(name, "is not a parameter of this route");
    error.remedy = known.empty() ? "it takes none" : "it takes " + joined(known);
    return error;
  }
  return Status();
}

}  // namespace shoal::coordinator::rest
