// See bpe.h.
#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <queue>

#include "base/check.h"
#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kShort = 64;  // symbols; above it a queue is faster than looking at all pairs

std::uint64_t key_of(TokenId left, TokenId right) {
  return (std::uint64_t{left} << 32 | right) + 1;
}

// Fibonacci hashing (Knuth, volume 3, section 6.4).
std::size_t spread(std::uint64_t key) {
  return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 20);
}

std::string name_of_byte(unsigned byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

}  // namespace

Bpe::Bpe(TextMap<TokenId> vocabulary, const std::vector<BpeMerge>& merges, BpeOptions options)
    : options_(options), vocabulary_(std::move(vocabulary)) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (options_.of_bytes) bytes_[byte] = find(std::string(1, static_cast<char>(byte)));
    if (options_.byte_fallback) bytes_[byte] = find(name_of_byte(byte));
  }
  merges_.resize(std::bit_ceil(2 * merges.size() + 2));
  mask_ = merges_.size() - 1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t key = key_of(merges[rank].left, merges[rank].right);
    std::size_t at = spread(key) & mask_;
    while (merges_[at].pair != 0 && merges_[at].pair != key) at = (at + 1) & mask_;
    // A pair that is listed twice has its last rank, as in the library.
    merges_[at] = {key, static_cast<std::uint32_t>(rank), merges[rank].whole};
  }
}

std::optional<TokenId> Bpe::find(std::string_view token) const {
  const auto it = vocabulary_.find(token);
  return it == vocabulary_.end() ? std::nullopt : std::optional(it->second);
}

const Bpe::Slot* Bpe::merge_of(TokenId left, TokenId right) const {
  const std::uint64_t key = key_of(left, right);
  for (std::size_t at = spread(key) & mask_; merges_[at].pair != 0; at = (at + 1) & mask_) {
    if (merges_[at].pair == key) return &merges_[at];
  }
  return nullptr;
}

BpeEncoder::BpeEncoder(const Bpe& bpe) : bpe_(bpe), known_(kSlots) {}

void BpeEncoder::encode(std::string_view word, std::vector<TokenId>& out) {
  if (word.empty()) return;
  Known* known = nullptr;
  if (word.size() <= kWordMax) {
    known = &known_[std::hash<std::string_view>()(word) % kSlots];
    const bool same = known->length == word.size() &&
                      std::memcmp(known->word.data(), word.data(), word.size()) == 0;
    if (same) {
      out.insert(out.end(), known->ids.begin(), known->ids.begin() + known->tokens);
      return;
    }
  }
  symbols_.clear();
  const auto whole = bpe_.options_.ignore_merges ? bpe_.find(word) : std::nullopt;
  if (whole) {
    symbols_.push_back(*whole);
  } else {
    read_symbols(word);
    symbols_.size() <= kShort ? merge_short() : merge_long();
  }
  out.insert(out.end(), symbols_.begin(), symbols_.end());
  if (known == nullptr || symbols_.size() > kTokensMax) return;
  known->length = static_cast<std::uint8_t>(word.size());
  known->tokens = static_cast<std::uint8_t>(symbols_.size());
  std::memcpy(known->word.data(), word.data(), word.size());
  std::copy(symbols_.begin(), symbols_.end(), known->ids.begin());
}

void BpeEncoder::read_symbols(std::string_view word) {
  unknown_before_ = false;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t length = bpe_.options_.of_bytes ? 1 : sequence_at(word, at).length;
    add_symbol(word.substr(at, length));
    at += length;
  }
  end_unknown();
}

void BpeEncoder::add_symbol(std::string_view text) {
  const auto byte_token = [&](char byte) { return bpe_.bytes_[static_cast<unsigned char>(byte)]; };
  const auto token = bpe_.options_.of_bytes ? byte_token(text.front()) : bpe_.find(text);
  if (token) {
    end_unknown();
    symbols_.push_back(*token);
    return;
  }
  const bool falls_back = bpe_.options_.byte_fallback &&
                          std::all_of(text.begin(), text.end(),
                                      [&](char byte) { return byte_token(byte).has_value(); });
  if (!falls_back) return add_unknown();
  for (const char byte : text) symbols_.push_back(*byte_token(byte));
}

// An unknown one is added when what follows it is known, as the library does: bytes that were
// fallen back on come before it.
void BpeEncoder::add_unknown() {
  if (!bpe_.options_.unknown) return;
  if (unknown_before_ && !bpe_.options_.fuse_unknown) symbols_.push_back(*bpe_.options_.unknown);
  unknown_before_ = true;
}

void BpeEncoder::end_unknown() {
  if (unknown_before_) symbols_.push_back(*bpe_.options_.unknown);
  unknown_before_ = false;
}

void BpeEncoder::merge_short() {
  const auto rank_at = [&](std::size_t i) {
    const Bpe::Slot* merge = bpe_.merge_of(symbols_[i], symbols_[i + 1]);
    return merge == nullptr ? kNoRank : merge->rank;
  };
  ranks_.clear();
  for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) ranks_.push_back(rank_at(i));
  while (!ranks_.empty()) {
    const auto lowest = std::min_element(ranks_.begin(), ranks_.end());
    if (*lowest == kNoRank) return;
    const auto i = static_cast<std::size_t>(lowest - ranks_.begin());
    symbols_[i] = bpe_.merge_of(symbols_[i], symbols_[i + 1])->whole;
    symbols_.erase(symbols_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks_.erase(lowest);
    if (i < ranks_.size()) ranks_[i] = rank_at(i);
    if (i > 0) ranks_[i - 1] = rank_at(i - 1);
  }
}

void BpeEncoder::merge_long() {
  struct Candidate {
    std::uint32_t rank;
    std::int32_t at;
    TokenId left, right;
  };
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  SHOAL_CHECK(symbols_.size() < std::size_t{1} << 31, "a word of over 2 GiB");
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> queue(later);
  linked_.clear();
  const auto count = static_cast<std::int32_t>(symbols_.size());
  for (std::int32_t i = 0; i < count; ++i) {
    linked_.push_back({symbols_[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }
  const auto symbol = [&](std::int32_t i) -> Symbol& {
    return linked_[static_cast<std::size_t>(i)];
  };
  const auto offer = [&](std::int32_t at) {
    if (at < 0 || symbol(at).after < 0) return;
    const TokenId left = symbol(at).id, right = symbol(symbol(at).after).id;
    if (const Bpe::Slot* merge = bpe_.merge_of(left, right)) {
      queue.push({merge->rank, at, left, right});
    }
  };
  for (std::int32_t i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate next = queue.top();
    queue.pop();
    Symbol& left = symbol(next.at);
    if (left.gone || left.after < 0 || left.id != next.left) continue;
    Symbol& right = symbol(left.after);
    if (right.id != next.right) continue;
    left.id = bpe_.merge_of(next.left, next.right)->whole;
    right.gone = true;
    left.after = right.after;
    if (left.after >= 0) symbol(left.after).before = next.at;
    offer(left.before);
    offer(next.at);
  }
  symbols_.clear();
  for (const Symbol& one : linked_) {
    if (!one.gone) symbols_.push_back(one.id);
  }
}

}  // namespace shoal::tokenizer
