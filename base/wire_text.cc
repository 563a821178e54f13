#include "base/wire_text.h"

#include <cstdint>

#include "base/host_port.h"

namespace shoal {
namespace {

constexpr std::size_t kHostMax = 253;

// The code point that begins `text`, which is cut behind it. False: not UTF-8 (RFC 3629: shortest
// form, no surrogates, nothing above 10FFFF).
bool take_code_point(std::string_view& text, std::uint32_t& out) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return false;
  out = length == 1 ? first : first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return false;
    out = out << 6 | (byte(i) & 0x3fU);
  }
  text.remove_prefix(length);
  const bool shortest = length < 3 || out >= (length == 3 ? 0x800U : 0x10000U);
  return shortest && out <= 0x10ffff && (out < 0xd800 || out > 0xdfff);
}

bool is_control(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true;
  if (code == 0x2028 || code == 0x2029) return true;
  const bool turns = code == 0x061c || code == 0x200e || code == 0x200f ||
                     (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return turns;
}

bool is_ipv6_text(std::string_view text) {
  constexpr std::string_view kAllowed = "0123456789abcdefABCDEF:.";
  const auto zone = text.find('%');  // of a link-local address: fe80::1%eth0
  const std::string_view address = text.substr(0, zone);
  if (zone != std::string_view::npos && !is_host_text(text.substr(zone + 1))) return false;
  return address.size() >= 2 && address.find(':') != std::string_view::npos &&
         address.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

bool is_plain_text(std::string_view text, std::size_t bytes) {
  if (text.size() > bytes) return false;
  while (!text.empty()) {
    std::uint32_t code = 0;
    if (!take_code_point(text, code) || is_control(code)) return false;
  }
  return true;
}

bool is_utf8(std::string_view text) {
  std::uint32_t code = 0;
  while (!text.empty()) {
    if (!take_code_point(text, code)) return false;
  }
  return true;
}

std::string valid_text(std::string_view text, std::size_t bytes_max) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  if (text.size() <= bytes_max && is_utf8(text)) return std::string(text);
  std::string valid;
  bool replaced = false;  // the bytes before
  while (!text.empty()) {
    std::string_view rest = text;
    std::uint32_t code = 0;
    const bool whole = take_code_point(rest, code);
    if (!whole) rest = text.substr(1);
    const std::string_view next = whole ? text.substr(0, text.size() - rest.size()) : kReplacement;
    text = rest;
    if (!whole && replaced) continue;
    replaced = !whole;
    if (next.size() > bytes_max - valid.size()) break;
    valid += next;
  }
  return valid;
}

std::string shown_text(std::string_view text, bool lines) {
  constexpr const char* kHex = "0123456789abcdef";
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    std::string_view rest = text;
    std::uint32_t code = 0;
    const bool whole = take_code_point(rest, code);
    const std::size_t length = whole ? text.size() - rest.size() : 1;
    const bool kept = whole && (!is_control(code) || (lines && (code == '\n' || code == '\t')));
    for (const char c : text.substr(0, length)) {
      const auto byte = static_cast<unsigned char>(c);
      kept ? shown.append(1, c) : shown.append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
    }
    text.remove_prefix(length);
  }
  return shown;
}

bool is_host_text(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  if (text.empty() || text.size() > kHostMax) return false;
  if (text.starts_with('[') && text.ends_with(']')) {
    return is_ipv6_text(text.substr(1, text.size() - 2));
  }
  if (text.find(':') != std::string_view::npos) return is_ipv6_text(text);
  return text.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_host_port_text(std::string_view text) {
  const auto read = read_host_port(text);
  return read && read->port >= 1;
}

bool is_origin_text(std::string_view text) {
  const std::size_t host = text.starts_with("https://") ? 8 : text.starts_with("http://") ? 7 : 0;
  if (host == 0) return false;
  text.remove_prefix(host);
  constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (text.find_first_of(kUpper) != std::string_view::npos) return false;
  const bool bare_ipv6 = !text.starts_with('[') && text.find(':') != text.rfind(':');
  const bool has_port =
      text.starts_with('[') ? !text.ends_with(']') : text.find(':') != std::string_view::npos;
  return !bare_ipv6 && (has_port ? is_host_port_text(text) : is_host_text(text));
}

}  // namespace shoal
