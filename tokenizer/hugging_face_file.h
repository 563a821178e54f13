// tokenizer.json, the one file in which the Hugging Face libraries keep a tokenizer, read into the
// parts that hugging_face.h puts together. What a reader can change by asking (padding,
// truncation) has no part in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/splitter.h"

namespace shoal::tokenizer {

struct HuggingFaceParts {
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizer;
  std::vector<SplitStep> splitter;
  std::vector<std::string> tokens;  // by id, as the file writes them; empty: nobody has the id
  TextMap<TokenId> vocabulary;      // of the model, as BpeOptions::of_bytes says
  std::vector<BpeMerge> merges;
  BpeOptions bpe;
  std::vector<DecodeStep> decoder;
  Frame frame;
};

// kIncompatible: a component that is not known, by its path; kInvalidArgument: no such file.
Result<HuggingFaceParts> parse_hugging_face(std::string_view json);

}  // namespace shoal::tokenizer
