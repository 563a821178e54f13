// Learns byte-level BPE from counted words, and writes it as a tokenizer.json that the Hugging Face
// libraries read. Of all pairs of neighbors the most frequent becomes a token, then again, until
// the vocabulary is full; of equally frequent ones the one of lower ids. The tokens are those that
// the library's own trainer finds in the same words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/bpe.h"
#include "tokenizer/splitter.h"

namespace shoal::tokenizer {

using WordCounts = TextMap<std::uint64_t>;

struct BpeTraining {
  std::int64_t vocabulary = 0;      // tokens in all: special ones, 256 bytes, merges
  std::uint64_t min_frequency = 2;  // a rarer pair is not merged
  std::vector<std::string> special = {"<|endoftext|>"};  // the first ids
};

struct TrainedBpe {
  std::vector<std::string> special;
  std::vector<std::string> tokens;  // by id, special ones first; strings of bytes
  std::vector<BpeMerge> merges;
};

// kValidation: a vocabulary that has no room for the bytes, or a special token that is empty, not
// UTF-8 or there twice. Gives fewer tokens than asked for when no pair is frequent enough.
// `progress` gets the number of tokens from time to time.
Result<TrainedBpe> train_bpe(const WordCounts& words, const BpeTraining& training,
                             const std::function<void(std::int64_t)>& progress = {});

// How the trained tokenizer splits texts into words: as Llama 3's.
const std::vector<SplitStep>& trained_split();

std::string tokenizer_json(const TrainedBpe& trained);

}  // namespace shoal::tokenizer
