// The outer step of a simulated trainer as its checkers see it, and what its cursor makes of it.
#include <algorithm>
#include <utility>

#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

using namespace outer_opt;

namespace {
constexpr Duration kOuterStep = milliseconds(4);
constexpr std::size_t kHistory = 4;
}  // namespace

void Trainer::outer_step(const CommitRound& commit) {
  process_.after(kOuterStep, [this, id = replica_->id, commit] {
    if (replica_ && replica_->id == id) take_outer_step(commit);
  });
}

void Trainer::take_outer_step(const CommitRound& commit) {
  Replica& r = *replica_;
  const bool averaged = commit.outcome == RoundOutcome::kAveraged;
  const replica::OuterState before = r.loop->state();
  const std::vector<float> local_before = r.local->values();
  if (averaged) r.loop->corrupt_average();
  const auto committed = r.loop->commit(commit, r.cursor && r.cursor->adopts_later());
  SHOAL_CHECK(r.loop->status().ok(), "a host's vectors do not fail");
  if (averaged) {
    show_outer_step(commit, before);
  } else {
    ++sim_.transitions[std::string("group gave up ") + to_string(commit.outcome)];
    sim_.observe(&Checker::stayed, Stayed{r.id, commit.key, commit.outcome == RoundOutcome::kKept,
                                          r.loop->state().anchor, local_before, r.local->values()});
  }
  offer_state();
  show_state(commit.key);
  if (sim_.bug == Bug::kStaleSource) {
    r.history.push_back({commit.key, before});
    if (r.history.size() > kHistory) r.history.pop_front();
  }
  settle(commit, committed);
  r.handled = 0;
  r.has_average = false;
  r.kept_before = std::move(r.kept);
  r.kept = {};
  if (lie_.is_under_way()) lie_.end();
  end_session(false);
  Actions actions;
  r.participant->outer_step_taken(committed.applied, actions);
  evaluate(commit.key, commit.evaluate);
  act(actions);
}

void Trainer::show_state(const RoundKey& key) {
  const Replica& r = *replica_;
  const replica::OuterState& state = r.loop->state();
  sim_.observe(&Checker::state_held, StateHeld{r.id, r.assign.stage, key, state.anchor,
                                               replica::digests_of(state), in_groups()});
}

void Trainer::show_outer_step(const CommitRound& commit, const replica::OuterState& before) {
  const Replica& r = *replica_;
  const std::int32_t number = r.loop->averaged_fragment();
  const Fragment& fragment = values_of(number);
  std::vector<float> average(static_cast<std::size_t>(outer_opt::value_count(fragment)));
  r.loop->vectors().read_average(0, average);
  if (r.session && r.session->plan.owner_step) {
    sim_.observe(&Checker::momentum_followed,
                 MomentumFollowed{r.id, r.assign.stage, r.session->plan, average, before.anchor,
                                  r.loop->state().anchor, r.loop->state().shards});
    return;
  }
  if (r.assign.spec.sync.algorithm == SyncAlgorithm::kDiloco) {
    ++sim_.transitions[std::string("outer step ") + to_string(r.assign.spec.sync.outer.method)];
  }
  sim_.observe(&Checker::outer_stepped,
               OuterStepped{r.id, r.session ? r.session->plan.members.size() : 1, commit,
                            r.assign.spec, number, fragment, average, before, r.loop->state()});
}

void Trainer::forget_counted(std::size_t sequences) {
  Replica& r = *replica_;
  r.trained.erase(r.trained.begin(), r.trained.begin() + static_cast<std::ptrdiff_t>(sequences));
  r.steps = Steps(static_cast<std::int64_t>(r.trained.size()));
}

// What was trained behind the boundary counts with the next round.
void Trainer::settle(const CommitRound& commit, const replica::OuterLoop::Committed& committed) {
  Replica& r = *replica_;
  const bool later = committed.adopts_later;
  r.adopting = commit.key;
  r.adopting_fragment = r.loop->averaged_fragment();
  if (committed.outcome != CommitOutcome::kKept) {
    std::size_t counted = later ? r.reported : r.trained.size();
    if (later && counted > 0 && sim_.misbehave(Bug::kTailTwice)) --counted;
    forget_counted(counted);
  }
  if (!r.cursor) r.training = false;
  if (r.lease) r.lease->committed();
  if (const auto stage = r.stage) stage->committed(commit.key.round, commit.record.step.count());
  if (r.cursor) r.cursor->committed(committed.outcome);
  const bool early = later && r.cursor->ahead() < r.assign.spec.sync.overlap_steps;
  if (early && sim_.misbehave(Bug::kEarlyAdoption)) adopt_result();
}

}  // namespace shoal::sim
