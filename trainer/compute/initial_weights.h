// Reads the parameters that a job begins with when model.init names a folder in the format of the
// Hugging Face libraries: config.json, and model.safetensors or several such files with their
// index, in fp32, fp16 or bf16. A checkpoint is such a folder too, however its model was cut into
// stages. The folder must hold exactly the tensors of the job's model. The error names up to ten
// tensors that are missing, unknown or of another shape.
//
// Where model.safetensors is beside an index, it alone is read, as the libraries do: saving a
// model into a folder in use writes the one and leaves the other.
//
// Tied embeddings: config.json decides. A job on one stage must tie them where it does. In a
// pipeline, which cannot, the head begins as a copy of the embedding.
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

// Writes the parameters of `units` of the job's model into `flat`, in the order of
// parameter_layout(). The derived fields of `spec` must be filled. `folder` is the name used in
// messages. kNotFound: a file is missing; kIncompatible: another model; kDataLoss: a file is
// truncated or damaged.
Status read_weights(const JobSpec& spec, UnitRange units, const std::string& folder,
                    const OpenWeights& open, std::span<float> flat);

// What spec.model.init names: a folder beneath a root, or else the checkpoint whose files lie in
// `checkpoint`.
Status read_initial_weights(const JobSpec& spec, UnitRange units, const data::DataRoots& roots,
                            const std::filesystem::path& checkpoint, std::span<float> flat);

// The failure that a replica reports for `error`. A missing folder may exist on another host, while
// a folder with another model fails everywhere. A checkpoint that was not fetched whole is fetched
// again.
Failure weights_failure(const JobSpec& spec, const Error& error);

}  // namespace shoal::trainer
