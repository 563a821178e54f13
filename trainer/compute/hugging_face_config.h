// What config.json of a folder of the Hugging Face libraries says of its model, in the words of a
// job. checkpoint_config.h writes these files. Pure.
#pragma once

#include <string>

#include "base/result.h"
#include "job/job_spec.h"

namespace shoal::trainer {

// The spec of a Llama, a Qwen2 or a GPT-2, with derived fields; `context` is the longest that it
// knows. kIncompatible: another architecture, or an option of it that changes what is computed and
// that Shoal does not have; kInvalidArgument: not such a file. `path` begins the messages.
Result<ModelSpec> read_model_config(const std::string& text, const std::string& path);

}  // namespace shoal::trainer
