// See byte_alphabet.h.
#include "tokenizer/byte_alphabet.h"

#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

constexpr char32_t kFirstOther = 0x100, kCharacters = 0x144;

constexpr bool stands_for_itself(char32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

// The byte of each character below kCharacters; -1: none.
const std::array<int, kCharacters>& bytes_by_character() {
  static const auto kBytes = [] {
    std::array<int, kCharacters> bytes{};
    bytes.fill(-1);
    for (int byte = 0; byte < 256; ++byte) {
      bytes[byte_characters()[static_cast<std::size_t>(byte)]] = byte;
    }
    return bytes;
  }();
  return kBytes;
}

}  // namespace

const std::array<char32_t, 256>& byte_characters() {
  static const auto kOf = [] {
    std::array<char32_t, 256> characters{};
    char32_t next = kFirstOther;
    for (char32_t byte = 0; byte < 256; ++byte) {
      characters[byte] = stands_for_itself(byte) ? byte : next++;
    }
    return characters;
  }();
  return kOf;
}

std::optional<std::string> bytes_of_characters(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const Utf8Sequence next = sequence_at(token, at);
    const char32_t c = next.valid ? code_point_at(token, at) : kCharacters;
    const int byte = c < kCharacters ? bytes_by_character()[c] : -1;
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    at += next.length;
  }
  return bytes;
}

std::string characters_of_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    append_utf8(byte_characters()[static_cast<unsigned char>(byte)], text);
  }
  return text;
}

}  // namespace shoal::tokenizer
