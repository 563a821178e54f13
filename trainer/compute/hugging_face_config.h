// What config.json of a folder of the Hugging Face libraries says of its model, in the words of a
// job. checkpoint_config.h writes these files. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "job/job_spec.h"

namespace shoal::trainer {

// The spec of a Llama, a Mistral, a Qwen2 or a GPT-2, with derived fields; `context` is the longest
// that it knows. `job_context` is model.context of the job, 0: the same; a sliding window must not
// be shorter. kIncompatible: another architecture, quantized weights, or an option that changes
// what is computed and that Shoal does not have; kInvalidArgument: not such a file. `path` begins
// the messages.
Result<ModelSpec> read_model_config(const std::string& text, const std::string& path,
                                    std::int64_t job_context = 0);

}  // namespace shoal::trainer
