// The decoder of tokenizer.json: how tokens become a text again. Known: ByteLevel, Metaspace,
// Replace, ByteFallback, Fuse, Strip, and a Sequence of them.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tokenizer/pattern.h"
#include "tokenizer/splitter.h"

namespace shoal::tokenizer {

struct DecodeByteLevel {};     // characters to bytes (byte_alphabet.h)
struct DecodeByteFallback {};  // "<0x0A>" to bytes
struct DecodeFuse {};          // all tokens become one
struct DecodeMetaspace {
  Metaspace metaspace;
};
struct DecodeReplace {
  std::string from, to;
};
struct DecodeStrip {
  std::string content;              // one character
  std::size_t start = 0, stop = 0;  // at most so many at each end of a token
};
using DecodeStep = std::variant<DecodeByteLevel, DecodeByteFallback, DecodeFuse, DecodeMetaspace,
                                DecodeReplace, DecodeStrip>;

// Returns valid UTF-8. Without steps tokens are joined by blanks, as the library does.
std::string decode_tokens(const std::vector<DecodeStep>& steps, std::vector<std::string> tokens);

}  // namespace shoal::tokenizer
