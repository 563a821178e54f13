// Another cut for a job that has one (swarm.recut). The cut may change while no replica lives: when
// the job is placed again from a checkpoint of the committed round, or from its initial parameters.
// It does where another one beats the present one by a fifth, or where the devices cannot serve the
// present one. The number of stages changes only with swarm.stages = "auto".
//
// Each stage then loads its units from the parts of the checkpoint that have them
// (parts_of_source()). No record has the digests of such a stage: its first replica that loads
// defines them, and the others, which all load the checkpoint, must agree. If one does not, or a
// trainer fails with an internal error before the next commit, the job goes back to the cut of the
// checkpoint, where the record tells who is wrong. It then keeps that cut until a later round is
// committed, devices come or change their speed, or kRecutRefusedFor is over. With the next commit
// the job is one like any other. A job that goes back to a checkpoint has the cut of that one
// (stand_at() in core/releases.h).
#pragma once

#include <string>
#include <vector>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

inline constexpr Duration kRecutRefusedFor = seconds(1800);

// Why no checkpoint of this job can be loaded on another cut; empty: one can.
std::string why_cut_stays(const State& state, const JobRecord& job);

// Now, because none of its replicas lives and its state can be loaded.
bool may_cut_anew(const State& state, const JobRecord& job);

// Its replicas do not agree on what the checkpoint has on this cut, or could not load it; or no
// agent that is left can.
bool is_recut_refused(const State& state, const JobRecord& job);

// Called when a replica has failed. The job is to go back to the cut of the checkpoint if the
// replica loaded it on another one and the failure may come from that.
void refuse_recut(Transaction& tx, const ReplicaRecord& failed, ReplicaFailure failure,
                  const std::string& detail);

// Called before each look at a job. Forgets why it kept its cut once the reason has ended.
void end_recut_refusal(Transaction& tx, JobId job);

// What was noted of stages by their numbers and of the replicas that have served them.
void forget_stages(JobTimers& timers);

// The placement with the present cut, for `input`, or with another one that is worth it. Only
// agents that can load another cut count for the latter. `gone`: as in placement_input().
PlacementDecision with_best_cut(const Transaction& tx, const JobRecord& job,
                                const PlacementInput& input, const std::vector<JobId>& gone = {});

// The placement of a job now: with_best_cut() while its cut may change.
PlacementDecision decide_placement(const Transaction& tx, const JobRecord& job,
                                   const PlacementInput& input);

// The cut of a job that has none, or another one. In the latter case the caller begins an epoch,
// because the rounds so far are of other stages.
void set_cut(Transaction& tx, JobId job, const std::vector<UnitRange>& cut);

}  // namespace shoal::coordinator
