// `shoal-trainer generate`: samples text from a checkpoint, with the tokenizer that lies in its
// folder; without one tokens are bytes or numbers. It ends early at the tokenizer's end of text.
// The context is cropped to the model's; each token costs a forward pass over it.
#pragma once

#include <cstdint>
#include <string>

namespace shoal::trainer {

struct GenerateOptions {
  std::string checkpoint;  // folder
  std::string prompt;      // text; of numbers, without a tokenizer, separated by spaces
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  std::int64_t top_k = 0;    // 0: all tokens
  std::uint64_t seed = 1;
  int threads = 1;
  bool json = false;  // one object at the end instead of text as it comes
};

int generate(const GenerateOptions& options);  // the exit code; text on stdout, messages on stderr

}  // namespace shoal::trainer
