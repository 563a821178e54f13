// Counts the words of files of text, to train a tokenizer on (bpe_trainer.h), with several threads.
#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/corpus/documents.h"

namespace shoal::corpus {

// What is counted of a word that never ends: its beginning.
inline constexpr std::size_t kWordBytesMax = 1 << 10;
// Different words that are kept; kResourceExhausted above.
inline constexpr std::size_t kWordsMax = 20'000'000;

// `progress` gets the bytes of the files that were read, `skipped` what was left out.
Result<tokenizer::WordCounts> count_words(const DocumentOptions& documents, int threads,
                                          const std::function<void(std::int64_t)>& progress = {},
                                          Skipped* skipped = nullptr);

}  // namespace shoal::corpus
