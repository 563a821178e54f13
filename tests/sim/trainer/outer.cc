// The outer step of a simulated trainer, and what becomes of its local parameters.
#include <algorithm>
#include <utility>

#include "outer_opt/core/step/nesterov.h"
#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

using namespace outer_opt;

namespace {

constexpr Duration kOuterStep = milliseconds(4);
constexpr std::size_t kHistory = 4;

OuterSpec outer_of(const JobSpec& spec, const CommitRound& commit) {
  // Plain AdamW: the local parameters become the anchor.
  if (spec.sync.algorithm == SyncAlgorithm::kNone) return {1.0, 0.0};
  return {commit.outer_lr, spec.sync.outer.momentum};
}

}  // namespace

void Trainer::outer_step(const CommitRound& commit) {
  process_.after(kOuterStep, [this, id = replica_->id, commit] {
    if (replica_ && replica_->id == id) take_outer_step(commit);
  });
}

void Trainer::take_outer_step(const CommitRound& commit) {
  if (commit.outcome != RoundOutcome::kAveraged) return stay(commit);
  Replica& r = *replica_;
  const std::vector<float> average = average_of(commit);
  note_base(commit, average);
  if (sharded()) return take_sharded_step(commit, average);
  const State before = r.state;
  move_anchor(commit, average);
  r.state.key = commit.key;
  keep_unsent();
  show_outer_step(commit, before, average);
  learn_average(commit, average);
  if (sim_.bug == Bug::kStaleDonor) {
    r.history.push_back(before);
    if (r.history.size() > kHistory) r.history.pop_front();
  }
  const bool kept = !r.contributed && commit.keeps;
  if (kept) move_with_anchor(before);
  finish_outer_step(commit, kept);
}

Digest Trainer::momentum_digest() const {
  return sharded() ? Digest() : digest_of(replica_->state.momentum);
}

void Trainer::note_base(const CommitRound& commit, std::span<const float> average) {
  Replica& r = *replica_;
  r.proof.base = digest_of(r.state.anchor);
  r.proof.base_momentum = momentum_digest();
  const Digest now = digest_of(average);
  r.proof.average = now == r.averages.at(commit.attempt).digest ? commit.average : now;
}

std::vector<float> Trainer::average_of(const CommitRound& commit) {
  const auto found = replica_->averages.find(commit.attempt);
  SHOAL_CHECK(found != replica_->averages.end(), "the participant voted without an average");
  std::vector<float> average = found->second.values;
  if (sim_.bug == Bug::kCorruptAverage && prng_.chance(0.1) && sim_.misbehave(sim_.bug)) {
    average[0] += 1.0f;
  }
  return average;
}

// The step itself, with the bugs that may be planted in it.
void Trainer::move_anchor(const CommitRound& commit, std::span<const float> average) {
  Replica& r = *replica_;
  const Fragment fragment = values_of(r.averaged_fragment);
  const OuterSpec options = outer_of(r.assign.spec, commit);
  if (sim_.bug == Bug::kSkipMomentum && prng_.chance(0.1) && sim_.misbehave(sim_.bug)) {
    adopt(fragment, 0, std::vector<float>(r.state.momentum.size(), 0.0f), r.state.momentum);
  }
  const bool async = r.assign.spec.sync.algorithm == SyncAlgorithm::kAsync;
  DelayedTerms terms{commit.share, commit.decay, commit.push};
  const bool misses = async && terms.decay < 1 && sim_.bug == Bug::kMissedRenewal;
  if (misses && prng_.chance(0.1) && sim_.misbehave(sim_.bug)) terms.decay = 1;
  if (in_groups()) {
    const GroupStep step = group_step_for(r.assign.spec.sync, commit.outer_lr);
    group_step(step, average, r.state.momentum, r.state.anchor);
  } else if (async) {
    delayed_nesterov_step(options, terms, average, r.state.momentum, r.state.anchor);
  } else {
    nesterov_step(options, fragment, average, r.state.momentum, r.state.anchor);
  }
  if (sim_.bug == Bug::kLeakyFragment && r.averaged_fragment > 0 && sim_.misbehave(sim_.bug)) {
    const std::vector<float> right = r.state.momentum;
    for (float& value : r.state.momentum) value *= 0.5f;
    adopt(fragment, 0, right, r.state.momentum);
  }
}

void Trainer::show_outer_step(const CommitRound& commit, const State& before,
                              const std::vector<float>& average) {
  const Replica& r = *replica_;
  const Fragment fragment = values_of(r.averaged_fragment);
  sim_.observe(&Checker::outer_stepped, OuterStepped{r.id,
                                                     commit.key,
                                                     outer_of(r.assign.spec, commit),
                                                     r.assign.spec,
                                                     {commit.share, commit.decay, commit.push},
                                                     r.averaged_fragment,
                                                     fragment,
                                                     average,
                                                     before.anchor,
                                                     before.momentum,
                                                     r.state.anchor,
                                                     r.state.momentum});
  sim_.observe(&Checker::state_held, StateHeld{r.id, r.assign.stage, commit.key, r.state.anchor,
                                               r.state.momentum, in_groups()});
}

void Trainer::finish_outer_step(const CommitRound& commit, bool kept) {
  Replica& r = *replica_;
  if (!kept) settle_local(commit, r.averaged_fragment);
  r.handled = 0;
  r.averages.clear();
  r.kept_before = std::move(r.kept);
  r.kept = {};
  end_session(false);
  Actions actions;
  Applied applied = std::exchange(r.proof, {});
  applied.key = commit.key;
  applied.anchor = digest_of(r.state.anchor);
  applied.momentum = momentum_digest();
  r.said = {applied.anchor, applied.momentum};
  r.participant->outer_step_taken(applied, actions);
  evaluate(commit.key, commit.evaluate);
  act(actions);
}

// The round was sealed without what it trains: that stays, on top of the new anchor.
void Trainer::move_with_anchor(const State& before) {
  Replica& r = *replica_;
  const bool dropped = !r.trained.empty() && sim_.misbehave(Bug::kDroppedProgress);
  for (std::size_t i = 0; i < r.local.size(); ++i) {
    const float trained = dropped ? 0.0f : before.anchor[i] - r.local[i];
    r.local[i] = r.state.anchor[i] - trained;
  }
  r.walk->committed(Settled::kKept);
}

void Trainer::forget_counted(std::size_t sequences) {
  Replica& r = *replica_;
  r.trained.erase(r.trained.begin(), r.trained.begin() + static_cast<std::ptrdiff_t>(sequences));
  r.steps = Steps(static_cast<std::int64_t>(r.trained.size()));
}

// What stays local: with fragments the others, with overlap what was trained behind the boundary.
void Trainer::settle_local(const CommitRound& commit, std::int32_t fragment) {
  Replica& r = *replica_;
  const bool later = r.walk && r.contributed && r.walk->adopts_later();
  r.adopting_fragment = fragment;
  r.adopting = commit.key;
  if (!r.contributed) r.local = r.state.anchor;
  if (r.contributed && !later) adopt(values_of(fragment), 0, r.state.anchor, r.local);
  std::size_t counted = later ? r.reported : r.trained.size();
  if (later && counted > 0 && sim_.bug == Bug::kTailTwice && sim_.misbehave(sim_.bug)) --counted;
  forget_counted(counted);
  if (!r.walk) r.training = false;
  if (r.lease) r.lease->committed();
  if (r.walk) r.walk->committed(r.contributed ? Settled::kCounted : Settled::kDropped);
  if (later && r.walk->ahead() < r.assign.spec.sync.overlap_steps &&
      sim_.bug == Bug::kEarlyAdoption && sim_.misbehave(sim_.bug)) {
    adopt_result();
  }
}

}  // namespace shoal::sim
