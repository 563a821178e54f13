// For the tests of rounds: two replicas in one job whose reports a test writes step by step.
#pragma once

#include <utility>
#include <vector>

#include "coordinator/core/coordinator_test_util.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {

struct StepPair : PairRig {
  using PairRig::PairRig;
  void report_steps(ConnectionId connection, ReplicaId replica, RoundNumber round, Steps steps,
                    double compute_s, double norm = 1, std::vector<DataLease> unused = {}) {
    RoundReport body;
    body.key = key(round);
    body.tokens = body.drawn = Tokens(steps.count() * 128);
    body.steps = steps;
    body.norm = norm;
    body.compute_s = compute_s;
    body.unused = std::move(unused);
    say(connection, FromReplica<RoundReport>{replica, body});
  }
  // Time passes while both agents are there.
  void live(int duration_s) {
    for (int passed = 0; passed < duration_s; ++passed) {
      wait(seconds(1));
      say(a, Heartbeat{}), say(b, Heartbeat{});
    }
  }
  Incarnation incarnation_of_b() const { return state().agents.at(AgentId(2)).incarnation; }
  OpenRound next_of(ConnectionId connection) {
    return last<ToReplica<CommitRound>>(connection)->body.next;
  }
};

inline JobSpec job_of_steps() {
  JobSpec spec = small_job();
  spec.train.steps = Steps(200);
  return spec;
}

inline JobSpec by_speed() {
  JobSpec spec = job_of_steps();
  change_sync(spec, [](SyncSpec& sync) { sync.balance = Balance::kSpeed; });
  return spec;
}

inline JobSpec by_time() {
  JobSpec spec = job_of_steps();
  change_sync(spec, [](SyncSpec& sync) { sync.every_s = 20; });
  spec.checkpoint.every_rounds = 0;
  return with_derived_fields(spec);
}

inline JobSpec streamed(std::int64_t fragments, std::int64_t overlap) {
  JobSpec spec = small_job();
  spec.model.layers = 2;
  spec.train.steps = Steps(40);
  change_sync(spec, [&](SyncSpec& sync) {
    sync.every = Steps(10 * fragments);
    sync.fragments = fragments;
    sync.overlap_steps = Steps(overlap);
  });
  return spec;
}

inline void pass(StepPair& rig, RoundNumber round, std::int64_t steps) {
  rig.report_steps(rig.a, rig.rep_a, round, Steps(steps), 1);
  rig.report_steps(rig.b, rig.rep_b, round, Steps(steps), 1);
  rig.finish(round);
}

}  // namespace shoal::coordinator
