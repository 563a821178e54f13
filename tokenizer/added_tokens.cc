// See added_tokens.h.
#include "tokenizer/added_tokens.h"

#include <algorithm>

#include <unicode/uchar.h>

#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

std::size_t before_white_space(std::string_view text, std::size_t least, std::size_t at) {
  while (at > least) {
    std::size_t begin = at - 1;
    while (begin > least && !begins_character(text[begin])) --begin;
    if (!u_isUWhiteSpace(static_cast<UChar32>(code_point_at(text, begin)))) break;
    at = begin;
  }
  return at;
}

std::size_t after_white_space(std::string_view text, std::size_t at) {
  while (at < text.size() && u_isUWhiteSpace(static_cast<UChar32>(code_point_at(text, at)))) {
    at += sequence_at(text, at).length;
  }
  return at;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    Range& range = by_first_[static_cast<unsigned char>(tokens_[i].content.front())];
    if (range.last == 0) range.first = i;
    range.last = i + 1;
  }
}

// Narrows the sorted tokens to those that begin with what stands at `at`, a byte at a time.
const AddedToken* AddedTokenFinder::longest_at(std::string_view text, std::size_t at) const {
  auto [first, last] = by_first_[static_cast<unsigned char>(text[at])];
  const AddedToken* longest = nullptr;
  for (std::size_t depth = 1; first < last; ++depth) {
    if (tokens_[first].content.size() == depth) longest = &tokens_[first++];
    if (first == last || at + depth >= text.size()) break;
    const char byte = text[at + depth];
    const auto begin = tokens_.begin();
    const auto position = [&](std::size_t i) { return begin + static_cast<std::ptrdiff_t>(i); };
    const auto range =
        std::equal_range(position(first), position(last), AddedToken{std::string(depth + 1, byte)},
                         [&](const AddedToken& a, const AddedToken& b) {
                           return static_cast<unsigned char>(a.content[depth]) <
                                  static_cast<unsigned char>(b.content[depth]);
                         });
    first = static_cast<std::size_t>(range.first - begin);
    last = static_cast<std::size_t>(range.second - begin);
  }
  return longest;
}

void AddedTokenFinder::cut(std::string_view text, std::vector<Segment>& out) const {
  out.clear();
  std::size_t told = 0;
  for (std::size_t at = 0; !empty() && at < text.size();) {
    const Range& range = by_first_[static_cast<unsigned char>(text[at])];
    const AddedToken* token = range.last == 0 ? nullptr : longest_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    const std::size_t begin = token->left_strip ? before_white_space(text, told, at) : at;
    std::size_t end = at + token->content.size();
    if (token->right_strip) end = after_white_space(text, end);
    if (begin > told) out.push_back({told, begin, std::nullopt});
    out.push_back({begin, end, token->id});
    told = at = end;
  }
  if (told < text.size()) out.push_back({told, text.size(), std::nullopt});
}

}  // namespace shoal::tokenizer
