// The parameters that a job begins with when model.init names a folder of the Hugging Face
// libraries, or a checkpoint, which is such a folder too, whatever its cut was: config.json, and
// model.safetensors or several such files with their index, in fp32, fp16 or bf16. It must hold
// exactly the tensors of the job's model; every one that is missing, not known or of another shape
// is named, up to ten.
//
// Tied embeddings: a job that does not tie them (a pipeline cannot) may begin from a folder that
// does; its head begins as a copy of the embedding.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "data/data_roots.h"
#include "job/job_spec.h"
#include "trainer/model/failure.h"

namespace shoal::trainer {

// Opens a file of the folder by its name: a descriptor, which the caller closes.
using OpenWeights = std::function<Result<int>(const std::string& name)>;

// Writes the parameters of `units` of the job's model, in the order of parameter_layout(). Derived
// fields of `spec` are filled. `folder` is what messages call it. kNotFound: a file of it is not
// there; kIncompatible: another model; kDataLoss: a file is cut or damaged.
Status read_weights(const JobSpec& spec, UnitRange units, const std::string& folder,
                    const OpenWeights& open, std::span<float> flat);

// What spec.model.init names: a folder beneath a root, or else the checkpoint whose files lie in
// `checkpoint`.
Status read_initial_weights(const JobSpec& spec, UnitRange units, const data::DataRoots& roots,
                            const std::filesystem::path& checkpoint, std::span<float> flat);

// What a replica says of it: another host may have the folder, no host can mend another model. A
// checkpoint that was not fetched whole is fetched again.
Failure weights_failure(const JobSpec& spec, const Error& error);

}  // namespace shoal::trainer
