#include "base/base64.h"

#include <cstdint>

namespace shoal {
namespace {

constexpr std::string_view kStandard =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kUrl =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string encoded(std::string_view bytes, std::string_view alphabet) {
  std::string text;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    for (held += 8; held >= 6; held -= 6) text.push_back(alphabet[(bits >> (held - 6)) & 63]);
  }
  if (held > 0) text.push_back(alphabet[(bits << (6 - held)) & 63]);
  return text;
}

std::optional<std::string> decoded(std::string_view text, std::string_view alphabet) {
  std::string bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::size_t value = alphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<char>((bits >> held) & 255));
  }
  return bytes;
}

}  // namespace

std::string base64(std::string_view bytes) {
  std::string text = encoded(bytes, kStandard);
  text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

std::string base64url(std::string_view bytes) { return encoded(bytes, kUrl); }

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  return decoded(text, kStandard);
}

std::optional<std::string> from_base64url(std::string_view text) { return decoded(text, kUrl); }

}  // namespace shoal
