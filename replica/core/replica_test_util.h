// Local parameters in a vector, and the rounds that tests of replica/core need.
#pragma once

#include <algorithm>
#include <vector>

#include "outer_opt/core/round/round.h"
#include "replica/core/local_parameters.h"
#include "replica/core/outer_algorithm.h"

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
  bool reads_parts() const override { return true; }
  void read_part(std::int64_t first, std::span<float> out) const override {
    std::copy_n(values.begin() + first, out.size(), out.begin());
  }
  // In two runs.
  void visit_parameters(const Visit& visit) const override {
    visit(0, std::span(values).first(cut()));
    visit(static_cast<std::int64_t>(cut()), std::span(values).subspan(cut()));
  }
  void change_parameters(const Change& change) override {
    change(0, std::span(values).first(cut()));
    change(static_cast<std::int64_t>(cut()), std::span(values).subspan(cut()));
  }
  void read_gradient(std::span<float> out) const override {
    std::copy(gradient.begin(), gradient.end(), out.begin());
  }
  void clear_gradient() override { gradient.assign(gradient.size(), 0.0f); }

  std::vector<float> values, gradient;

 private:
  std::size_t cut() const { return values.size() / 2; }
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

// The outer step of all runs of the fragment; `average` is packed.
inline void take_step(OuterAlgorithm& algorithm, const CommitRound& commit,
                      const outer_opt::Fragment& fragment, std::span<const float> average,
                      OuterState& state) {
  const outer_opt::StepTerms terms = step_terms(commit, 0, algorithm.norm_of(average));
  algorithm.begin_step(state);
  for (const outer_opt::ValueRange& range : fragment) {
    const auto count = static_cast<std::size_t>(range.count);
    algorithm.step(terms, range, average.first(count), state);
    average = average.subspan(count);
  }
}

}  // namespace shoal::replica
