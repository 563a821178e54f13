// See outer_algorithm.h.
#include "replica/core/outer_algorithm.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "outer_opt/core/round/groups.h"
#include "outer_opt/core/step/nesterov.h"
#include "outer_opt/core/step/vector_statistics.h"
#include "replica/core/learning_rate.h"

namespace shoal::replica {

using outer_opt::Fragment;
using outer_opt::MomentumShards;
using outer_opt::Restaged;
using outer_opt::StepTerms;
using outer_opt::ValueRange;

namespace {

template <typename Values>
auto at(const ValueRange& run, Values&& values) {
  return std::span(values).subspan(static_cast<std::size_t>(run.first),
                                   static_cast<std::size_t>(run.count));
}

void subtract(std::span<const float> a, std::span<const float> b, std::span<float> difference) {
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] = a[i] - b[i];
}

}  // namespace

OuterState OuterAlgorithm::zero_state(std::int64_t value_count) const {
  OuterState state;
  state.anchor.resize(static_cast<std::size_t>(value_count));
  state.vectors = zero_vectors(vectors(), state.anchor.size());
  return state;
}

void OuterAlgorithm::adopt_vectors(NamedVectors vectors, OuterState& state) const {
  SHOAL_CHECK(std::ranges::equal(vectors, this->vectors(), {}, &NamedVector::name),
              "the checkpoint has the vectors of another algorithm");
  state.vectors = std::move(vectors);
}

std::int64_t OuterAlgorithm::contribution(const LocalParameters& local, const OuterState& state,
                                          const Fragment& fragment, std::span<float> out) const {
  if (out.size() == state.anchor.size()) {
    local.read_parameters(out);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = state.anchor[i] - out[i];
    return 0;
  }
  std::int64_t nonfinite = 0;
  local.visit_parameters([&](std::int64_t first, std::span<const float> run) {
    std::int64_t seen = 0;
    for (const ValueRange& range : outer_opt::part_in({first, std::ssize(run)}, fragment)) {
      nonfinite += outer_opt::count_nonfinite(at({seen, range.first - seen}, run));
      const std::span<float> packed = out.first(static_cast<std::size_t>(range.count));
      subtract(at({first + range.first, range.count}, state.anchor), at(range, run), packed);
      out = out.subspan(packed.size());
      seen = range.first + range.count;
    }
    nonfinite += outer_opt::count_nonfinite(at({seen, std::ssize(run) - seen}, run));
  });
  return nonfinite;
}

std::string OuterAlgorithm::mismatch(const ReducePlan& plan) const {
  return plan.owner_step ? "owners take the outer step only if sharded" : "";
}

StepTerms step_terms(const CommitRound& commit, std::int32_t fragment, double norm) {
  StepTerms terms;
  terms.round = commit.key.round;
  terms.fragment = fragment;
  terms.outer_lr = commit.outer_lr;
  terms.share = commit.share, terms.decay = commit.decay, terms.push = commit.push;
  terms.norm = norm;
  return terms;
}

namespace {

class Alone final : public OuterAlgorithm {
 public:
  bool averages_alone(const ReducePlan& plan) override {
    alone_ = plan.members.size() == 1;
    return alone_;
  }
  void step(const StepTerms&, const ValueRange& run, std::span<const float> average,
            OuterState& state) const override {
    const std::span<float> anchor = at(run, state.anchor);
    if (!alone_) {
      return mean_.step({.outer_lr = 1}, average, outer_opt::RunsOf(state.vectors, run), anchor);
    }
    std::copy(average.begin(), average.end(), anchor.begin());
  }
  outer_opt::JoinMode join_mode() const override { return outer_opt::JoinMode::kThisRound; }

 private:
  const outer_opt::Nesterov mean_{OuterSpec{1, 0}};
  bool alone_ = true;  // in the newest plan
};

class SharedAdam final : public OuterAlgorithm {
 public:
  SharedAdam(const TrainSpec& train, std::vector<outer_opt::DecayRange> ranges)
      : train_(train), ranges_(std::move(ranges)) {}

  std::span<const std::string_view> vectors() const override { return kSharedMoments; }

  std::int64_t contribution(const LocalParameters& local, const OuterState&, const Fragment&,
                            std::span<float> out) const override {
    local.read_gradient(out);
    return 0;
  }
  bool can_read_contribution() const override { return false; }

  bool measures_average() const override { return true; }
  double norm_of(std::span<const float> gradient) const override {
    return outer_opt::gradient_norm(gradient);
  }
  void step(const StepTerms& terms, const ValueRange& run, std::span<const float> gradient,
            OuterState& state) const override {
    const outer_opt::SharedAdamWOptions options = options_at(terms);
    std::vector<float>& m = vector_of(state.vectors, kSharedMoments[0]);
    std::vector<float>& v = vector_of(state.vectors, kSharedMoments[1]);
    for (const outer_opt::DecayRange& range : ranges_) {
      const std::int64_t first = std::max(range.first, run.first);
      const std::int64_t end = std::min(range.first + range.count, run.first + run.count);
      if (first >= end) continue;
      const ValueRange part{first, end - first};
      outer_opt::shared_adamw_step(outer_opt::shared_adamw(options, range.decays),
                                   at({first - run.first, part.count}, gradient),
                                   at(part, state.anchor), at(part, m), at(part, v));
    }
  }

  void forget_trained(LocalParameters& local) const override { local.clear_gradient(); }
  bool rests() const override { return false; }

 private:
  // The learning rate is that of inner step round - 1: aborted attempts do not move the schedule.
  outer_opt::SharedAdamWOptions options_at(const StepTerms& terms) const {
    outer_opt::SharedAdamWOptions options;
    options.lr = learning_rate(train_, Steps(terms.round - 1));
    options.weight_decay = train_.weight_decay;
    options.beta1 = train_.beta1, options.beta2 = train_.beta2;
    options.eps = kAdamEps;
    options.clip = train_.clip;
    options.norm = terms.norm;
    options.step = terms.round;
    return options;
  }

  TrainSpec train_;
  std::vector<outer_opt::DecayRange> ranges_;
};

class Averaged final : public OuterAlgorithm {
 public:
  explicit Averaged(std::unique_ptr<outer_opt::OuterOptimizer> optimizer)
      : optimizer_(std::move(optimizer)) {}
  std::span<const std::string_view> vectors() const override { return optimizer_->vectors(); }
  const outer_opt::OuterOptimizer* optimizer() const override { return optimizer_.get(); }
  void step(const StepTerms& terms, const ValueRange& run, std::span<const float> average,
            OuterState& state) const override {
    optimizer_->step(terms, average, outer_opt::RunsOf(state.vectors, run), at(run, state.anchor));
  }

 private:
  std::unique_ptr<outer_opt::OuterOptimizer> optimizer_;
};

class DelayedNesterov final : public OuterAlgorithm {
 public:
  explicit DelayedNesterov(double momentum) : momentum_(momentum) {}
  // A late replica moves with the anchor, and its contribution stays what it was.
  bool can_read_contribution() const override { return false; }
  void step(const StepTerms& terms, const ValueRange& run, std::span<const float> average,
            OuterState& state) const override {
    outer_opt::delayed_nesterov_step(
        {terms.outer_lr, momentum_}, {terms.share, terms.decay, terms.push}, average,
        at(run, vector_of(state.vectors, kMomentum[0])), at(run, state.anchor));
  }

 private:
  double momentum_;
};

class InGroups final : public OuterAlgorithm {
 public:
  explicit InGroups(const SyncSpec& sync) : sync_(sync) {}

  bool can_read_contribution() const override { return false; }
  bool enter_group(const OuterState& state, std::span<float> contribution,
                   const ReducePlan& plan) const override {
    outer_opt::make_group_input(outer_opt::group_step_for(sync_, plan.outer_lr), state.anchor,
                                contribution);
    return true;
  }
  // The anchor itself: the pull is 1.
  std::span<const float> clip_center(const OuterState& state) const override {
    return state.anchor;
  }
  void step(const StepTerms& terms, const ValueRange& run, std::span<const float> mean,
            OuterState& state) const override {
    outer_opt::group_step(outer_opt::group_step_for(sync_, terms.outer_lr), mean,
                          at(run, vector_of(state.vectors, kMomentum[0])), at(run, state.anchor));
  }
  outer_opt::JoinMode join_mode() const override { return outer_opt::JoinMode::kAnyRound; }

 private:
  SyncSpec sync_;
};

class Sharded final : public OuterAlgorithm {
 public:
  explicit Sharded(double momentum) : momentum_(momentum) {}

  std::span<const std::string_view> vectors() const override { return {}; }
  // A replica that comes from a checkpoint keeps all of it until the next commit.
  void adopt_vectors(NamedVectors vectors, OuterState& state) const override {
    const std::vector<float>& momentum = vector_of(vectors, kMomentum[0]);
    const outer_opt::ValueRange all{0, std::ssize(momentum)};
    state.shards = MomentumShards({all});
    std::copy(momentum.begin(), momentum.end(), state.shards.at(all).begin());
  }
  std::string mismatch(const ReducePlan& plan) const override {
    return plan.owner_step ? "" : "owners take the outer step where it is sharded";
  }

  Result<std::optional<Restaged>> missing_momentum(const ReducePlan& plan, ReplicaId self,
                                                   const OuterState& state) override {
    staged_.reset();
    const auto ranges = outer_opt::kept_ranges(plan.members, self);
    const auto& holders = plan.owner_step->holders;
    if (outer_opt::stays(ranges, self, holders, state.shards)) return std::optional<Restaged>();
    auto restaged = outer_opt::restage(ranges, self, holders, state.shards);
    if (!restaged) return restaged.error();
    return std::optional(std::move(*restaged));
  }
  bool gathers_momentum() const override { return true; }
  void stage(MomentumShards shards) override { staged_ = std::move(shards); }
  void forget_staged() override { staged_.reset(); }

  std::span<const float> own_momentum(const ReducePlan& plan, ReplicaId self,
                                      const OuterState& state) const override {
    if (!plan.owner_step) return {};
    const MomentumShards& shards = staged_ ? *staged_ : state.shards;
    for (const ReduceMember& member : plan.members) {
      if (member.replica == self && member.part_count > 0) {
        return shards.at(outer_opt::ValueRange{member.part_first, member.part_count});
      }
    }
    return {};
  }

  void begin_step(OuterState& state) override {
    if (staged_) state.shards = std::move(*staged_);
    staged_.reset();
  }
  void step(const StepTerms& terms, const ValueRange& run, std::span<const float> step,
            OuterState& state) const override {
    state.shards.follow({terms.outer_lr, momentum_}, run, step);
    outer_opt::apply_step(step, at(run, state.anchor));
  }

 private:
  double momentum_;
  std::optional<MomentumShards> staged_;
};

}  // namespace

std::unique_ptr<OuterAlgorithm> make_outer_algorithm(const JobSpec& spec,
                                                     std::vector<outer_opt::DecayRange> ranges) {
  const SyncSpec& sync = spec.sync;
  const auto averaged = [&](const OuterSpec& outer) {
    return std::make_unique<Averaged>(outer_opt::make_outer_optimizer(outer, sync.fragments));
  };
  if (outer_opt::averages_in_groups(sync)) return std::make_unique<InGroups>(sync);
  switch (sync.algorithm) {
    case SyncAlgorithm::kNone:
      return std::make_unique<Alone>();
    case SyncAlgorithm::kLocalSgd:
      return averaged(OuterSpec{1, 0});
    case SyncAlgorithm::kDdp:
      return std::make_unique<SharedAdam>(spec.train, std::move(ranges));
    case SyncAlgorithm::kAsync:
      return std::make_unique<DelayedNesterov>(sync.outer.momentum);
    case SyncAlgorithm::kDiloco:
      break;
  }
  if (sync.outer_state == shoal::OuterState::kSharded) {
    return std::make_unique<Sharded>(sync.outer.momentum);
  }
  return averaged(sync.outer);
}

}  // namespace shoal::replica
