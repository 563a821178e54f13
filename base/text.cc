#include "base/text.h"

namespace shoal {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kHexDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kHexDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

std::string hex_of(std::string_view bytes) {
  return hex_of(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of(kHexDigits) == std::string_view::npos;
}

}  // namespace shoal
