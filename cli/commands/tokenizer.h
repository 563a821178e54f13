// shoal tokenizer, and shoal dataset prepare: text to tokens on this host. They ask no coordinator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace shoal::cli {

struct TrainTokenizerOptions {
  std::vector<std::string> files;
  std::string field;      // of JSON lines; empty: the files are text
  bool skip_bad = false;  // records without a text are left out
  std::string output;     // the tokenizer.json
  std::int64_t vocabulary = 0;
  std::vector<std::string> special;  // none: <|endoftext|>
  std::uint64_t min_frequency = 2;
  std::uint64_t bytes_max = 0;  // of each file; 0: all
  int threads = 0;              // 0: one per core
};
Result<int> tokenizer_train(const TrainTokenizerOptions& options, bool json);

struct EncodeOptions {
  std::string tokenizer;           // a file, or "bytes"
  std::vector<std::string> words;  // text, or tokens; none: stdin
  bool frame = false;              // encode: with the tokens that begin and end every text
  bool special = false;            // decode: shows special tokens, too
};
Result<int> tokenizer_encode(const EncodeOptions& options, bool json);
Result<int> tokenizer_decode(const EncodeOptions& options, bool json);
Result<int> tokenizer_info(const std::string& file, bool json);

struct PrepareDatasetOptions {
  std::vector<std::string> files;
  std::string field, tokenizer, output, end_of_text;
  bool skip_bad = false;  // records without a text are left out
  std::uint64_t shard_bytes = 256'000'000;
  int threads = 0;  // 0: one per core
};
Result<int> dataset_prepare(const PrepareDatasetOptions& options, bool json);

}  // namespace shoal::cli
