#include "objects/location.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "base/wire_text.h"

namespace shoal::objects {
namespace {

constexpr std::size_t kTextMax = 1024;
constexpr std::int64_t kPartMibMin = 5, kPartMibMax = 5 * 1024;  // S3's own bounds

Error refused(const std::string& field, std::string message, std::string remedy = {}) {
  if (remedy.empty()) {
    remedy = "for example s3://bucket/prefix?endpoint=https://s3.example:9000&region=eu-central-1";
  }
  return {Code::kValidation, std::move(message), field, std::move(remedy)};
}

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_bucket(const std::string& name) {
  return name.size() >= 3 && name.size() <= 63 && is_lower_or_digit(name.front()) &&
         is_lower_or_digit(name.back()) && std::ranges::all_of(name, [](char c) {
           return is_lower_or_digit(c) || c == '-' || c == '.' || c == '_';
         });
}

// What an operator may choose for a prefix: no surprises in URLs, paths and logs.
bool is_prefix(const std::string& text) {
  if (text.size() > 500 || text.starts_with('/') || text.find("//") != text.npos) return false;
  if (("/" + text + "/").find("/../") != std::string::npos) return false;
  if (("/" + text + "/").find("/./") != std::string::npos) return false;
  return std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '/' || c == '-' || c == '.' || c == '_' || c == '=';
  });
}

bool is_region(const std::string& text) {
  return !text.empty() && text.size() <= 64 &&
         std::ranges::all_of(text, [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

Status set(Location& location, const std::string& key, const std::string& value,
           const std::string& field, bool& styled) {
  if (key == "endpoint") {
    location.endpoint = value;
    while (location.endpoint.ends_with('/')) location.endpoint.pop_back();
    if (!is_origin_text(location.endpoint)) {
      return refused(field, "the endpoint must be http(s)://host or http(s)://host:port, got '" +
                                shown_text(value, false) + "'");
    }
  } else if (key == "region") {
    location.region = value;
    if (!is_region(value))
      return refused(field, "'" + shown_text(value, false) + "' is not a region");
  } else if (key == "style") {
    if (value != "path" && value != "host")
      return refused(field, "style must be path or host, got '" + shown_text(value, false) + "'");
    location.in_path = value == "path";
    styled = true;
  } else if (key == "part_mib") {
    std::int64_t size = 0;
    const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (failure != std::errc() || end != value.data() + value.size() || size < kPartMibMin ||
        size > kPartMibMax) {
      return refused(field,
                     "part_mib must be from 5 to 5120, got '" + shown_text(value, false) + "'");
    }
    location.part = mebibytes(size);
  } else {
    return refused(field, "'" + shown_text(key, false) + "' is not known",
                   "known are endpoint, region, style and part_mib");
  }
  return {};
}

}  // namespace

Result<Location> read_location(const std::string& text, const std::string& field) {
  if (text.size() > kTextMax) {
    return refused(field, "a location has at most " + std::to_string(kTextMax) + " characters");
  }
  constexpr std::string_view kScheme = "s3://";
  if (!text.starts_with(kScheme))
    return refused(field, "must begin with s3://, got '" + shown_text(text, false) + "'");
  const std::size_t question = text.find('?');
  const std::string path = text.substr(kScheme.size(), question - kScheme.size());
  const std::size_t slash = path.find('/');
  Location location{.bucket = path.substr(0, slash)};
  if (!is_bucket(location.bucket)) {
    return refused(
        field, "'" + shown_text(location.bucket, false) +
                   "' is not a valid name for a bucket (3 to 63 lower-case letters, digits, '-')");
  }
  if (slash != path.npos) location.prefix = path.substr(slash + 1);
  while (location.prefix.ends_with('/')) location.prefix.pop_back();
  if (!is_prefix(location.prefix)) {
    return refused(field, "the prefix may have letters, digits and '/-._=', got '" +
                              shown_text(location.prefix, false) + "'");
  }
  if (!location.prefix.empty()) location.prefix += '/';
  bool styled = false;
  std::string query = question == text.npos ? "" : text.substr(question + 1);
  while (!query.empty()) {
    const std::string item = query.substr(0, query.find('&'));
    query.erase(0, item.size() + 1);
    const std::size_t equals = item.find('=');
    if (equals == item.npos)
      return refused(field, "'" + shown_text(item, false) + "' has no value");
    if (Status s = set(location, item.substr(0, equals), item.substr(equals + 1), field, styled);
        !s.ok()) {
      return s.error();
    }
  }
  if (location.endpoint.empty()) {
    location.endpoint = "https://s3." + location.region + ".amazonaws.com";
    if (!styled) location.in_path = location.bucket.find('.') != std::string::npos;
  }
  return location;
}

bool is_object(const std::string& text) { return text.starts_with("s3://"); }

Result<ObjectPlace> read_object(const std::string& text, const std::string& field) {
  auto location = read_location(text, field);
  if (!location) return location.error();
  ObjectPlace place{std::move(*location), {}};
  place.key = std::move(place.location.prefix);
  place.location.prefix.clear();
  const std::size_t end = std::min(text.find('?'), text.size());
  if (place.key.empty() || text[end - 1] == '/') {
    return refused(field, "'" + shown_text(text, false) + "' names no object",
                   "for example s3://bucket/folder/web-0.bin?endpoint=https://s3.example:9000");
  }
  place.key.pop_back();  // the slash of a prefix
  return place;
}

std::string shown(const Location& location, const std::string& key) {
  return "s3://" + location.bucket + "/" + shown_text(key, false);
}

std::string url_of(const Location& location, const std::string& key) {
  const std::string path = percent_encoded(key, true);
  if (location.in_path) return location.endpoint + "/" + location.bucket + "/" + path;
  const std::size_t host = location.endpoint.find("//") + 2;
  return location.endpoint.substr(0, host) + location.bucket + "." +
         location.endpoint.substr(host) + "/" + path;
}

std::string percent_encoded(const std::string& text, bool slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (slashes && c == '/');
    if (plain) {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace shoal::objects
