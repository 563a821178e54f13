// Byte-pair encoding (Sennrich et al. 2016, section 3.2) as tokenizer.json has it: the symbols of a
// word, its bytes or its characters, are merged pair by pair, of all pairs the one with the lowest
// rank first, the leftmost of equals.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/text_tokenizer.h"

namespace shoal::tokenizer {

// Heterogeneous look-up: by a view, without a copy.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
template <typename T>
using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

struct BpeMerge {
  TokenId left = 0, right = 0, whole = 0;
};

struct BpeOptions {
  bool of_bytes = false;       // symbols are bytes and tokens strings of bytes; else characters
  bool byte_fallback = false;  // of characters: what is no token becomes its bytes, "<0x0A>"
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  bool fuse_unknown = false;
  std::optional<TokenId> unknown;  // of what is no token; none: it is left out
};

// Immutable; any thread may encode with an object of its own.
class Bpe {
 public:
  // Merges in the order of their rank.
  Bpe(TextMap<TokenId> vocabulary, const std::vector<BpeMerge>& merges, BpeOptions options);

  std::optional<TokenId> find(std::string_view token) const;

 private:
  friend class BpeEncoder;
  struct Slot {
    std::uint64_t pair = 0;  // left << 32 | right, plus one: 0 is an empty slot
    std::uint32_t rank = 0;
    TokenId whole = 0;
  };
  const Slot* merge_of(TokenId left, TokenId right) const;

  BpeOptions options_;
  TextMap<TokenId> vocabulary_;
  std::array<std::optional<TokenId>, 256>
      bytes_;  // a token of each byte: of_bytes or byte_fallback
  // Open addressing with linear probing, at most half full: one cache line where a node-based map
  // takes three. It is asked for every pair of every word.
  std::vector<Slot> merges_;
  std::size_t mask_ = 0;
};

// Encodes on one thread and remembers short words; must not outlive `bpe`.
class BpeEncoder {
 public:
  explicit BpeEncoder(const Bpe& bpe);
  void encode(std::string_view word, std::vector<TokenId>& out);

 private:
  static constexpr std::size_t kSlots = 1 << 15, kWordMax = 26, kTokensMax = 8;
  struct Known {
    std::uint8_t length = 0, tokens = 0;  // length 0: empty
    std::array<char, kWordMax> word;
    std::array<TokenId, kTokensMax> ids;
  };
  struct Symbol {
    TokenId id = 0;
    std::int32_t before = -1, after = -1;  // -1: none; of the long form
    bool gone = false;
  };

  void read_symbols(std::string_view word);
  void add_symbol(std::string_view text);
  void add_unknown();
  void end_unknown();
  void merge_short();
  void merge_long();

  const Bpe& bpe_;
  std::vector<Known> known_;
  std::vector<TokenId> symbols_;
  std::vector<std::uint32_t> ranks_;
  std::vector<Symbol> linked_;
  bool unknown_before_ = false;  // the symbol before this one was unknown, and is not yet added
};

}  // namespace shoal::tokenizer
