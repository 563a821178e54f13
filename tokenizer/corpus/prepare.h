// Makes a dataset of files of text: tokens in shards, a token of end of text after each document,
// and a copy of the tokenizer (shard_writer.h). Several threads encode; memory is bounded by a few
// pieces per thread. The same files, tokenizer and shard size give the same bytes with any number
// of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tokenizer/corpus/documents.h"
#include "tokenizer/corpus/shard_writer.h"
#include "tokenizer/text_tokenizer.h"

namespace shoal::corpus {

struct PrepareOptions {
  DocumentOptions documents;
  std::string output;       // a folder, new or empty
  std::string end_of_text;  // a token; empty: the tokenizer's
  int threads = 1;
  std::int64_t shard_bytes = 256 << 20;
};

// The tokenizer, and its file.
struct TokenizerFile {
  const tokenizer::TextTokenizer& tokenizer;
  std::string name;  // in the dataset: tokenizer.json or tokenizer.model
  std::string content;
};

struct Prepared {
  std::int64_t documents = 0, tokens = 0, text_bytes = 0;
  Skipped skipped;
  int token_bytes = 0;  // of one: 2 with a vocabulary of at most 65,536, else 4
  std::vector<Shard> shards;
};

// kValidation names the file and the place in it, or says that there is no document; nothing stays
// in the folder then. `progress` gets the bytes of the files that were read.
Result<Prepared> prepare(const PrepareOptions& options, const TokenizerFile& file,
                         const std::function<void(std::int64_t)>& progress = {});

}  // namespace shoal::corpus
