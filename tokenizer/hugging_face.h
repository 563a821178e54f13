// A tokenizer.json at work: added tokens, normalizer, pre-tokenizer, model, decoder.
#pragma once

#include <memory>

#include "tokenizer/hugging_face_file.h"

namespace shoal::tokenizer {

std::unique_ptr<TextTokenizer> hugging_face_tokenizer(HuggingFaceParts parts);

}  // namespace shoal::tokenizer
