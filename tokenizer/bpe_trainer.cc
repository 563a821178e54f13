// See bpe_trainer.h.
#include "tokenizer/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/utf8.h"

namespace shoal::tokenizer {
namespace {

constexpr std::int64_t kBytes = 256;
constexpr std::int64_t kTellEvery = 256;  // tokens

// Of Llama 3: words with one character before them, digits in threes, line ends together.
constexpr std::string_view kExpression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Pair {
  TokenId left = 0, right = 0;
  auto operator<=>(const Pair&) const = default;
};
struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const std::uint64_t key = std::uint64_t{pair.left} << 32 | pair.right;
    return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15U >> 16);
  }
};

struct Word {
  std::vector<TokenId> symbols;
  std::int64_t count = 0;
};

// Where a pair stands: indices of words, ascending.
using Places = std::vector<std::uint32_t>;

struct Candidate {
  Pair pair;
  std::int64_t count = 0;
  Places places;
};
struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.count != b.count ? a.count < b.count : b.pair < a.pair;
  }
};

class Learner {
 public:
  Learner(const WordCounts& words, const BpeTraining& training) : training_(training) {
    out_.special = training.special;
    for (const std::string& token : training.special) add_token(token);
    add_bytes();
    read_words(words);
    count_pairs();
  }

  TrainedBpe learn(const std::function<void(std::int64_t)>& progress) {
    while (size() < training_.vocabulary && !queue_.empty()) {
      Candidate best = queue_.top();
      queue_.pop();
      const std::int64_t count = counts_[best.pair];
      if (best.count != count) {  // it was told before some of its places went
        best.count = count;
        queue_.push(std::move(best));
        continue;
      }
      const auto least = static_cast<std::int64_t>(training_.min_frequency);
      if (count < 1 || count < least) break;
      merge(best);
      if (progress && size() % kTellEvery == 0) progress(size());
    }
    return std::move(out_);
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(out_.tokens.size()); }

  // In the order of the characters that stand for them.
  void add_bytes() {
    std::vector<int> bytes(kBytes);
    for (int i = 0; i < kBytes; ++i) bytes[static_cast<std::size_t>(i)] = i;
    const auto& characters = byte_characters();
    std::sort(bytes.begin(), bytes.end(), [&](int a, int b) {
      return characters[static_cast<std::size_t>(a)] < characters[static_cast<std::size_t>(b)];
    });
    for (const int byte : bytes) {
      of_byte_[static_cast<std::size_t>(byte)] = add_token(std::string(1, static_cast<char>(byte)));
    }
  }

  TokenId add_token(const std::string& bytes) {
    const auto [it, is_new] = ids_.emplace(bytes, static_cast<TokenId>(size()));
    if (is_new) out_.tokens.push_back(bytes);
    return it->second;
  }

  void read_words(const WordCounts& words) {
    for (const auto& [text, count] : words) {
      if (text.size() < 2) continue;  // no pair
      Word word{{}, static_cast<std::int64_t>(count)};
      for (const char byte : text) {
        word.symbols.push_back(of_byte_[static_cast<unsigned char>(byte)]);
      }
      words_.push_back(std::move(word));
    }
  }

  void count_pairs() {
    std::unordered_map<Pair, Places, PairHash> places;
    for (std::uint32_t i = 0; i < words_.size(); ++i) {
      const Word& word = words_[i];
      for (std::size_t at = 0; at + 1 < word.symbols.size(); ++at) {
        const Pair pair{word.symbols[at], word.symbols[at + 1]};
        counts_[pair] += word.count;
        note(places[pair], i);
      }
    }
    offer(places);
  }

  static void note(Places& places, std::uint32_t word) {
    if (places.empty() || places.back() != word) places.push_back(word);
  }

  void offer(std::unordered_map<Pair, Places, PairHash>& places) {
    for (auto& [pair, where] : places) {
      const std::int64_t count = counts_[pair];
      if (count > 0) queue_.push({pair, count, std::move(where)});
    }
  }

  void merge(const Candidate& best) {
    const TokenId id = add_token(out_.tokens[best.pair.left] + out_.tokens[best.pair.right]);
    out_.merges.push_back({best.pair.left, best.pair.right, id});
    std::unordered_map<Pair, Places, PairHash> places;
    for (const std::uint32_t i : best.places) merge_in(i, best.pair, id, places);
    offer(places);
  }

  void merge_in(std::uint32_t index, Pair pair, TokenId id,
                std::unordered_map<Pair, Places, PairHash>& places) {
    Word& word = words_[index];
    std::vector<TokenId>& symbols = word.symbols;
    const auto gained = [&](Pair one) {
      counts_[one] += word.count;
      note(places[one], index);
    };
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (symbols[i] != pair.left || symbols[i + 1] != pair.right) continue;
      symbols[i] = id;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      if (i > 0) {
        counts_[{symbols[i - 1], pair.left}] -= word.count;
        gained({symbols[i - 1], id});
      }
      if (i + 1 < symbols.size()) {
        counts_[{pair.right, symbols[i + 1]}] -= word.count;
        gained({id, symbols[i + 1]});
      }
    }
  }

  BpeTraining training_;
  TrainedBpe out_;
  TextMap<TokenId> ids_;
  std::array<TokenId, kBytes> of_byte_{};
  std::vector<Word> words_;
  std::unordered_map<Pair, std::int64_t, PairHash> counts_;
  std::priority_queue<Candidate, std::vector<Candidate>, Later> queue_;
};

Status check(const BpeTraining& training) {
  const auto bad = [](const std::string& what, const std::string& field,
                      const std::string& remedy) {
    return Error{Code::kValidation, what, field, remedy};
  };
  std::vector<std::string> special = training.special;
  std::sort(special.begin(), special.end());
  for (const std::string& token : special) {
    if (token.empty() || find_invalid_utf8(token) != std::string_view::npos) {
      return bad("a special token must be a text", "--special", "for example <|endoftext|>");
    }
  }
  if (std::adjacent_find(special.begin(), special.end()) != special.end()) {
    return bad("a special token is given twice", "--special", "give each one once");
  }
  const auto least = kBytes + static_cast<std::int64_t>(special.size());
  if (training.vocabulary >= least && training.vocabulary <= kVocabularyMax) return {};
  return bad("must be from " + std::to_string(least) + " (256 bytes and the special tokens) to " +
                 std::to_string(kVocabularyMax) + ", got " + std::to_string(training.vocabulary),
             "--vocab", "32768 suits most models");
}

}  // namespace

Result<TrainedBpe> train_bpe(const WordCounts& words, const BpeTraining& training,
                             const std::function<void(std::int64_t)>& progress) {
  if (Status s = check(training); !s) return s.error();
  return Learner(words, training).learn(progress);
}

const std::vector<SplitStep>& trained_split() {
  static const std::vector<SplitStep> kSteps = {Split{Pattern::compile(kExpression).value()}};
  return kSteps;
}

std::string tokenizer_json(const TrainedBpe& trained) {
  using Json = nlohmann::json;
  Json added = Json::array(), vocabulary = Json::object(), merges = Json::array();
  const std::size_t special = trained.special.size();
  for (std::size_t id = 0; id < trained.tokens.size(); ++id) {
    const std::string& token = trained.tokens[id];
    vocabulary[id < special ? token : characters_of_bytes(token)] = id;
    if (id >= special) continue;
    added.push_back({{"id", id},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  for (const BpeMerge& merge : trained.merges) {
    merges.push_back(characters_of_bytes(trained.tokens[merge.left]) + " " +
                     characters_of_bytes(trained.tokens[merge.right]));
  }
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", false}};
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kExpression}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", merges}}}};
  return json.dump(1) + "\n";
}

}  // namespace shoal::tokenizer
