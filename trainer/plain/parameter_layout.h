// Where each parameter lives in the one flat vector of a stage, under the names that the Hugging
// Face libraries give it in the whole model. The order is fixed, so the same spec has the same
// vector on every machine; rows that are used together (q, k, v; gate, up) are neighbors and can
// be read as one matrix. A whole model is the stage of all units. Values only: no torch, no
// allocation of the vector itself. Pure and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/job_spec.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/shared_adamw.h"
#include "replica/runtime/cut.h"

namespace shoal::trainer {

enum class Initial { kNormal, kOnes, kZeros };

// One parameter tensor: values [first, first + count) of the flat vector, row-major.
struct TensorSlot {
  std::string name;  // "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;
  std::int64_t first = 0, count = 0;
  std::uint64_t index = 0;  // in the whole model; the initial values depend on it
  bool decays = false;      // weight decay: matrices, but not embeddings of positions
  Initial initial = Initial::kNormal;
  double deviation = 0;  // of kNormal
  // Matrices of a block: how many stand side by side in its columns (GPT-2's q, k and v: three). 0:
  // embeddings, head and vectors, which are not orthogonalized.
  std::int64_t matrices = 0;
};

// What the inner optimizer does with which values. First moments (of a matrix: its momentum) are as
// many as values, in the same places; second moments only AdamW's values have, packed in their
// order: `second` of a range is the place of its first one.
struct AdamRange {
  std::int64_t first = 0, count = 0;
  bool decays = false;
  std::int64_t second = 0;
};
struct MatrixPlace {  // row-major, rows `stride` values apart
  std::int64_t first = 0, rows = 0, columns = 0, stride = 0;
};
struct OptimizerLayout {
  std::vector<AdamRange> adam;
  std::vector<MatrixPlace> matrices;  // of muon; all decay
  std::int64_t second_moments = 0;
};

using replica::is_cut;
using replica::whole_model;

// Derived fields must be filled (with_derived_fields); of a tied model there is only the whole. The
// stages of a cut add up to the whole model, whose counts add up to parameter_count(model).
std::vector<TensorSlot> parameter_layout(const ModelSpec& model, UnitRange units);
std::int64_t value_count(const std::vector<TensorSlot>& layout);
// How the vector of a stage is made of embedding, blocks and head, for cut_fragments().
outer_opt::StageSizes stage_sizes(const ModelSpec& model, UnitRange units);
std::vector<outer_opt::DecayRange> decay_ranges(const std::vector<TensorSlot>& layout);
OptimizerLayout optimizer_layout(const std::vector<TensorSlot>& layout, Optimizer optimizer);

// The initial parameters: normal(0, 0.02) matrices, those that write to the residual stream scaled
// by 1 / sqrt(2 * layers), norms 1, biases 0. A tensor has the same bits for the same seed on every
// machine and in every cut.
void initialize(const std::vector<TensorSlot>& layout, std::uint64_t seed, std::span<float> flat);

}  // namespace shoal::trainer
