// What a simulated trainer does in a group (outer_opt/core/round/groups.h) beyond what all reduces
// have in common: the vector that it sends, and a commit without an average.
#include <utility>

#include "tests/sim/trainer/trainer.h"

namespace shoal::sim {

using namespace outer_opt;

// Clip factors are in what members send, so that no session applies them.
void Trainer::make_group_vector(Session& session) {
  const Replica& r = *replica_;
  GroupStep step = group_step_for(r.assign.spec.sync, session.plan.outer_lr);
  if (sim_.misbehave(Bug::kForgottenAnchor)) step.pull = 0;
  for (ReduceMember& member : session.plan.members) {
    const double clip = std::exchange(member.clip_factor, 1.0);
    const bool mine = member.replica == r.id && !session.mine.empty();
    if (mine) make_group_input(step, clip, r.state.anchor, session.mine);
  }
}

// Its group gave up: the anchor stays, and what it trained too, or neither.
void Trainer::stay(const CommitRound& commit) {
  Replica& r = *replica_;
  r.contributed = commit.outcome == RoundOutcome::kKept;
  const std::vector<float> before = r.local;
  const bool forgets = r.contributed && sim_.misbehave(Bug::kForgottenProgress);
  if (!r.contributed || forgets) r.local = r.state.anchor;
  r.state.key = commit.key;
  ++sim_.transitions[std::string("group gave up ") + to_string(commit.outcome)];
  sim_.observe(&Checker::stayed,
               Stayed{r.id, commit.key, r.contributed, r.state.anchor, before, r.local});
  sim_.observe(&Checker::state_held,
               StateHeld{r.id, r.assign.stage, commit.key, r.state.anchor, r.state.momentum, true});
  forget_counted(r.trained.size());
  r.walk->committed(r.contributed ? Settled::kCounted : Settled::kDropped);
  finish_outer_step(commit, true);
}

}  // namespace shoal::sim
