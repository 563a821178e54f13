// The parameters that a job begins with when model.init names a folder of the Hugging Face
// libraries: config.json, and model.safetensors or several such files with their index, in fp32,
// fp16 or bf16. The folder lies beneath a data root of this host. It must hold exactly the tensors
// of the job's model; every one that is missing, not known or of another shape is named, up to ten.
//
// Tied embeddings: a job that does not tie them (a pipeline cannot) may begin from a folder that
// does; its head begins as a copy of the embedding. A folder of a Shoal checkpoint is such a folder
// too, whatever its cut was.
#pragma once

#include <span>

#include "base/result.h"
#include "data/data_roots.h"
#include "job/job_spec.h"
#include "trainer/model/failure.h"

namespace shoal::trainer {

// Writes the parameters of `units` of the job's model, in the order of parameter_layout(). Derived
// fields of `spec` are filled, and spec.model.init names a folder. kNotFound: the folder or a file
// of it is not there; kIncompatible: another model; kDataLoss: a file is cut or damaged.
Status read_initial_weights(const JobSpec& spec, UnitRange units, const data::DataRoots& roots,
                            std::span<float> flat);

// What a replica says of it: another host may have the folder, no host can mend another model.
Failure weights_failure(const Error& error);

}  // namespace shoal::trainer
