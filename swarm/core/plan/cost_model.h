// What each layer of a model costs: the numbers that the stage plan, the assignment and the
// simulator use. A model is a row of units: the embedding, the blocks, the head (last norm,
// projection to the vocabulary, loss). A stage is a contiguous range of units. Parameters and
// training memory of the whole row are those of job/job_spec.h; what a cut adds (a second copy of
// a tied matrix, the inputs of microbatches in flight) is counted separately. Speeds of devices are
// not known here.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "job/job_spec.h"

namespace shoal::swarm {

struct UnitCost {
  std::int64_t parameters = 0;
  double forward_flops = 0;            // per token; 2 per multiply-add, full (not causal) attention
  double activation_values = 0;        // kept for the backward pass, per token, 4 bytes each
  std::int64_t matrix_parameters = 0;  // in a block: what train.optimizer = muon orthogonalizes
};

// What embedding and head take where they were measured, in times of one block.
struct EndCosts {
  double embedding = 0, head = 0;
  bool operator==(const EndCosts&) const = default;
};

struct CostOptions {
  ActivationCodec codec = ActivationCodec::kInt8;
  Recompute recompute = Recompute::kRecompute;
  std::int64_t microbatches_in_flight = 1;  // held by one replica at a time
  std::int64_t weight_versions = 1;         // 2bw: 2, each with its gradients
};

// The cost options of a job: its codec and recomputation, and the number of microbatches that a
// replica may hold. With flush that is the window of stage_session.h, at most what a router draws
// in one step; with 2bw, at most what it draws in two steps; with 1f1b, one per stage. While the
// number of stages is not chosen, the number of layers stands for it.
CostOptions cost_options(const JobSpec& spec);

class CostModel {
 public:
  // The spec must be valid, except for swarm.stages. With `ends` the FLOPs of embedding and head
  // are those in which a device would compute as much of a block: they take longer than their
  // formulas tell, because lookups, norms and the loss are bound by memory.
  CostModel(const JobSpec& spec, CostOptions options, std::optional<EndCosts> ends = {});

  std::int32_t units() const { return static_cast<std::int32_t>(units_.size()); }
  std::int32_t blocks() const { return units() - 2; }
  const UnitCost& unit(std::int32_t index) const { return units_[index]; }
  UnitRange whole() const { return {0, units()}; }
  std::int64_t tokens_per_microbatch() const { return tokens_; }

  // Per token. The backward pass costs twice the forward pass, and three times with recomputation.
  double forward_flops(UnitRange range) const;
  double backward_flops(UnitRange range) const;
  double flops(UnitRange range) const { return forward_flops(range) + backward_flops(range); }

  // The parameters of this range alone.
  std::int64_t parameters(UnitRange range) const;
  // The vectors of job/training_vectors.h, the activations of one microbatch, and what further
  // microbatches in flight keep. The whole model on one replica is not a pipeline: it has one
  // microbatch at a time.
  Bytes memory(UnitRange range) const;
  // State that a joiner downloads, in fp32: shared_vectors() of job/training_vectors.h, and the
  // moments where train.join sends them.
  Bytes state_bytes(UnitRange range) const;
  // What one token sends over one boundary in one direction: the same at every cut of these
  // families.
  std::int64_t boundary_bytes() const { return boundary_bytes_; }

 private:
  std::int64_t without_second_moment(UnitRange range) const;
  double activations_of(UnitRange range) const;

  std::vector<UnitCost> units_;
  std::vector<double> flops_sum_;  // prefix sums: the plan asks for every range
  std::vector<double> activation_sum_;
  std::vector<std::int64_t> parameter_sum_, matrix_sum_;
  CostOptions options_;
  std::int64_t hidden_ = 0, tokens_ = 0, boundary_bytes_ = 0;
  double vectors_ = 0;
  std::int64_t shared_vectors_ = 0;
  bool moments_travel_ = false;
  bool whole_recomputes_ = false;    // swarm.recompute of a job with one stage
  std::int64_t muon_workspace_ = 0;  // values, where there are matrices; 0: not muon
};

}  // namespace shoal::swarm
