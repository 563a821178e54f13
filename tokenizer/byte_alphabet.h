// The 256 characters in which byte-level BPE writes bytes (GPT-2's bytes_to_unicode): printable
// ones of Latin-1 stand for themselves, the others for U+0100 and following, in order.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace shoal::tokenizer {

const std::array<char32_t, 256>& byte_characters();  // of each byte

// The bytes of a token; none when it has a character that stands for no byte.
std::optional<std::string> bytes_of_characters(std::string_view token);
std::string characters_of_bytes(std::string_view bytes);

}  // namespace shoal::tokenizer
