// The tokenizer of a job (data.tokenizer_file, else what its datasets carry): it makes text of
// samples, travels in checkpoints, and must fit the model. A checkpoint carries its file under the
// name that the Hugging Face libraries look for.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "data/data_roots.h"
#include "data/stored_tokens.h"
#include "job/job_spec.h"
#include "tokenizer/text_tokenizer.h"

namespace shoal::trainer {

inline constexpr const char* kTokenizerFile = "tokenizer.json";

struct JobTokenizer {
  std::unique_ptr<tokenizer::TextTokenizer> tokenizer;
  std::string content;  // of its file
};

// Null: the job has none. kNotFound: the file lies beneath no root or cannot be read; kValidation:
// no tokenizer.json, one with a component that is not known, or more tokens than model.vocab. With
// field data.tokenizer_file, also of what `read` gives, which that file replaces.
Result<std::shared_ptr<const JobTokenizer>> open_job_tokenizer(const JobSpec& spec,
                                                               const data::DataRoots& roots,
                                                               const data::ReadStored& read = {});

// The one in the folder of a checkpoint; null: it has none.
Result<std::unique_ptr<tokenizer::TextTokenizer>> checkpoint_tokenizer(
    const std::filesystem::path& folder, const JobSpec& spec);

}  // namespace shoal::trainer
