// See utf8.h.
#include "tokenizer/utf8.h"

#include <cstdint>
#include <cstring>

namespace shoal::tokenizer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  std::size_t length = 0;  // 0: begins no character
  unsigned second_least = 0x80, second_most = 0xBF;
};

Lead lead_of(unsigned byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2 || byte > 0xF4) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // beyond: surrogates
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // beyond: no Unicode
  return {4};
}

bool is_ascii8(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return (word & 0x8080808080808080U) == 0;
}

}  // namespace

Utf8Sequence sequence_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const Lead lead = lead_of(byte(at));
  if (lead.length == 0) return {1, false};
  for (std::size_t i = 1; i < lead.length; ++i) {
    const unsigned least = i == 1 ? lead.second_least : 0x80;
    const unsigned most = i == 1 ? lead.second_most : 0xBF;
    const bool there = at + i < text.size() && byte(at + i) >= least && byte(at + i) <= most;
    if (!there) return {i, false};
  }
  return {lead.length, true};
}

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (at + 8 <= text.size() && is_ascii8(text.data() + at)) {
      at += 8;
      continue;
    }
    const Utf8Sequence next = sequence_at(text, at);
    if (!next.valid) return at;
    at += next.length;
  }
  return std::string_view::npos;
}

std::string with_replacements(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Sequence next = sequence_at(bytes, at);
    text += next.valid ? bytes.substr(at, next.length) : kReplacement;
    at += next.length;
  }
  return text;
}

char32_t code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return lead;
  if (lead < 0xE0) return (lead & 0x1F) << 6 | (byte(1) & 0x3F);
  if (lead < 0xF0) return (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  return (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
}

void append_utf8(char32_t c, std::string& out) {
  const auto add = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) return add(c);
  if (c < 0x800) return add(0xC0 | c >> 6), add(0x80 | (c & 0x3F));
  if (c < 0x10000) return add(0xE0 | c >> 12), add(0x80 | (c >> 6 & 0x3F)), add(0x80 | (c & 0x3F));
  add(0xF0 | c >> 18), add(0x80 | (c >> 12 & 0x3F)), add(0x80 | (c >> 6 & 0x3F));
  add(0x80 | (c & 0x3F));
}

}  // namespace shoal::tokenizer
