// The added tokens of tokenizer.json: words that are found in a text before anything else, each a
// token of its own, such as <|endoftext|>. Of several at one place the longest counts.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/text_tokenizer.h"

namespace shoal::tokenizer {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool left_strip = false, right_strip = false;  // takes the white space beside it along
  bool special = false;                          // not part of the text for people
  bool normalized = false;                       // looked for in the normalized text
};

struct Segment {
  std::size_t begin = 0, end = 0;
  std::optional<TokenId> token;  // none: text
};

// Immutable; any thread may look.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Replaces `out` by the segments that cover `text`, which is valid UTF-8.
  void cut(std::string_view text, std::vector<Segment>& out) const;
  bool empty() const { return tokens_.empty(); }

 private:
  const AddedToken* longest_at(std::string_view text, std::size_t at) const;

  struct Range {
    std::size_t first = 0, last = 0;
  };
  std::vector<AddedToken> tokens_;     // by content
  std::array<Range, 256> by_first_{};  // of tokens_, by their first byte
};

}  // namespace shoal::tokenizer
