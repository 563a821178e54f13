// Local parameters in a vector, and the rounds that tests of replica/core need.
#pragma once

#include <algorithm>
#include <vector>

#include "outer_opt/core/round/round.h"
#include "replica/core/local_parameters.h"

namespace shoal::replica {

class VectorParameters final : public LocalParameters {
 public:
  explicit VectorParameters(std::vector<float> values)
      : values(std::move(values)), gradient(this->values.size()) {}

  std::int64_t value_count() const override { return static_cast<std::int64_t>(values.size()); }
  void read_parameters(std::span<float> out) const override {
    std::copy(values.begin(), values.end(), out.begin());
  }
  void write_parameters(std::span<const float> in) override { values.assign(in.begin(), in.end()); }
  void read_gradient(std::span<float> out) const override {
    std::copy(gradient.begin(), gradient.end(), out.begin());
  }
  void clear_gradient() override { gradient.assign(gradient.size(), 0.0f); }

  std::vector<float> values, gradient;
};

inline RoundKey key_of(RoundNumber round) { return {JobId(1), 0, round}; }

inline OpenRound open_of(RoundNumber round, std::int32_t fragment = 0) {
  OpenRound open;
  open.key = key_of(round);
  open.fragment = fragment;
  return open;
}

// Two members of equal weight, each with half of the values.
inline ReducePlan plan_of(RoundNumber round, std::int64_t values, std::int32_t fragment = 0) {
  ReducePlan plan;
  plan.key = key_of(round);
  plan.attempt = 1;
  plan.codec = CodecKind::kFp32;
  plan.fragment = fragment;
  plan.value_count = values;
  plan.outer_lr = 1;
  const std::int64_t half = values / 2;
  plan.members = {{ReplicaId(1), "a:1", 1, 1, 0, half},
                  {ReplicaId(2), "b:1", 1, 1, half, values - half}};
  return plan;
}

inline CommitRound commit_of(RoundNumber round, double outer_lr) {
  CommitRound commit;
  commit.key = key_of(round);
  commit.outer_lr = outer_lr;
  return commit;
}

}  // namespace shoal::replica
