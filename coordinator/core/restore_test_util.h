// A job on two agents whose database is put back: for the tests of restores.
#pragma once

#include "coordinator/core/coordinator_test_util.h"

namespace shoal::coordinator {

// Nothing is stored or evaluated: what its replicas hold is all there is.
inline JobSpec job_that_is_only_held() {
  JobSpec spec = small_job();
  spec.train.steps = Steps(400);
  spec.checkpoint.every_rounds = 0;
  spec.eval.every_rounds = 0;
  return spec;
}

struct HeldRig : PairRig {
  HeldRig() : PairRig(job_that_is_only_held()) {}

  void commit(RoundNumber round) {
    report(a, rep_a, key(round)), report(b, rep_b, key(round));
    const Digest after{static_cast<std::uint64_t>(round), 3};
    vote(a, rep_a, key(round), 1, after), vote(b, rep_b, key(round), 1, after);
    applied(a, rep_a, key(round), after), applied(b, rep_b, key(round), after);
    ASSERT_EQ(job(id).committed_round, round);
  }
  // Both agents live on.
  void stay(Duration time) {
    for (Duration passed; passed < time; passed = passed + seconds(2)) {
      wait(seconds(2)), say(a, Heartbeat{}), say(b, Heartbeat{});
    }
  }
};

}  // namespace shoal::coordinator
