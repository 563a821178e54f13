// Replicas that fail: who is asked again, and what their job says of it.
#include "coordinator/core/replicas/replicas.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

TEST(Replicas, FailsAJobThatNoAgentCanLoad) {
  Rig rig;
  const auto a = rig.join("a");
  JobSpec spec = small_job();
  spec.swarm.min_replicas = 1;
  const JobId id = *rig.submit(spec);
  rig.say(a,
          ReplicaFailed{rig.last<Assign>(a)->replica, ReplicaFailure::kDataMissing, "/data/text"});
  EXPECT_EQ(rig.job(id).phase, JobPhase::kFailed);
  EXPECT_EQ(rig.job(id).reason, JobReason::kDataMissing);
  EXPECT_EQ(rig.job(id).detail, "no agent could load it: /data/text");
}

TEST(Replicas, AgentsReceiveASpecWithoutTextsForPeople) {
  Rig rig;
  const auto a = rig.join("a");
  rig.protocol = kFirstWithoutNames - 1;
  const auto old = rig.join("old");
  JobSpec spec = small_job("mine");
  spec.description = "a first try";
  ASSERT_TRUE(rig.submit(spec).ok());
  const auto assign = rig.last<Assign>(a), to_old = rig.last<Assign>(old);
  ASSERT_TRUE(assign && to_old);
  EXPECT_EQ(assign->spec, for_agents(rig.job(assign->job).spec));
  EXPECT_EQ(job_name(*assign), "mine") << "out of the signed record";
  EXPECT_EQ(to_old->spec.name, "mine") << "which refuses a spec without one";
  EXPECT_EQ(to_old->spec.description, "");
}

TEST(Replicas, ABadJobDoesNotMakeTheNextOneWait) {
  Rig rig;
  const auto a = rig.join("a");
  JobSpec spec = small_job("bad");
  spec.swarm.min_replicas = 1;
  ASSERT_TRUE(rig.submit(spec).ok());
  const ReplicaId refused = rig.last<Assign>(a)->replica;
  rig.say(a, ReplicaFailed{refused, ReplicaFailure::kDataMissing, "/data/text"});
  spec.name = "good";
  const JobId good = *rig.submit(spec);
  const ReplicaId next = rig.last<Assign>(a)->replica;
  ASSERT_NE(next, refused) << "its device has not failed";
  EXPECT_EQ(rig.state().replicas.at(next).job, good);
}

// A job with a checkpoint whose replicas are gone, and agents that lack the data when they load it.
struct WithoutData : PairRig {
  static JobSpec spec() {
    JobSpec spec = small_job();
    spec.swarm.min_replicas = 1;
    spec.checkpoint.every_rounds = 1;
    return spec;
  }
  WithoutData() : PairRig(spec()) {
    report(a, rep_a, key(1)), report(b, rep_b, key(1));
    finish(1);
    upload(state().checkpoints.begin()->first, 0);
    for (const ReplicaFailure failure :
         {ReplicaFailure::kTrainerExited, ReplicaFailure::kDataMissing}) {
      fail_all(failure);
    }
  }
  void stay(int beats) {
    for (int i = 0; i < beats; ++i) wait(seconds(2)), say(a, Heartbeat{}), say(b, Heartbeat{});
  }
  void load_both() {
    for (const ConnectionId agent : {a, b}) {
      const Assign assign = *last<Assign>(agent);
      say(agent, Loaded{.replica = assign.replica,
                        .key = assign.source.key,
                        .anchor = assign.source.anchor,
                        .momentum = assign.source.momentum,
                        .value_count = 1000,
                        .address = "127.0.0.1:7100"});
    }
    stay(2);
  }
  // Both, as soon as they are assigned.
  void fail_all(ReplicaFailure failure) {
    for (const ConnectionId agent : {a, b}) {
      for (int beats = 0; beats < 30 && !is_live(state(), last<Assign>(agent)->replica); ++beats) {
        stay(1);
      }
      const ReplicaId replica = last<Assign>(agent)->replica;
      ASSERT_TRUE(is_live(state(), replica));
      say(agent, ReplicaFailed{replica, failure, "/data/text is missing"});
    }
  }
};

TEST(Replicas, AJobThatHasTrainedOutlivesFilesThatAreMissing) {
  WithoutData rig;
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kDataMissing);
  EXPECT_THAT(rig.job(rig.id).detail, HasSubstr("/data/text is missing"));
  const ReplicaId before = rig.last<Assign>(rig.a)->replica;
  for (int i = 0; i < 10; ++i) rig.fail_all(ReplicaFailure::kDataMissing);  // asked again and again
  EXPECT_NE(rig.last<Assign>(rig.a)->replica, before);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
}

// What was said stands while nobody is asked, and while they are asked again: a job that is queued
// or gathers says what is to be mended.
TEST(Replicas, AJobThatIsQueuedForMissingFilesSaysSo) {
  WithoutData rig;
  rig.input(PauseJob{RequestId{7}, rig.id});
  ASSERT_EQ(rig.job(rig.id).phase, JobPhase::kPaused);
  rig.input(ResumeJob{RequestId{8}, rig.id});
  rig.fail_all(ReplicaFailure::kDataMissing);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kQueued);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kDataMissing);
  const ReplicaId before = rig.last<Assign>(rig.a)->replica;
  rig.stay(10);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kDataMissing);
  EXPECT_EQ(rig.last<Assign>(rig.a)->replica, before) << "not yet";
  rig.stay(10);
  ASSERT_NE(rig.last<Assign>(rig.a)->replica, before);
  rig.load_both();
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_TRUE(rig.state().refusals.empty());
}

TEST(Replicas, AnAgentThatIsStartedAnewIsAskedAgainAtOnce) {
  Rig rig;
  const auto a = rig.join("a"), b = rig.join("b");
  JobSpec spec = small_job();
  spec.swarm.min_replicas = 1;
  const JobId id = *rig.submit(spec);
  rig.load(a);
  const ReplicaId refused = rig.last<Assign>(b)->replica;
  rig.say(b, ReplicaFailed{refused, ReplicaFailure::kDataMissing, "/data/text"});
  for (int i = 0; i < 10; ++i)
    rig.wait(seconds(2)), rig.say(a, Heartbeat{}), rig.say(b, Heartbeat{});
  EXPECT_EQ(rig.last<Assign>(b)->replica, refused) << "not as it is";
  const auto again = rig.join("b");
  for (int i = 0; i < 10; ++i) {
    rig.wait(seconds(2)), rig.say(a, Heartbeat{}), rig.say(again, Heartbeat{});
  }
  EXPECT_TRUE(rig.last<Assign>(again));
  EXPECT_EQ(rig.job(id).failures_in_row, 0);
}

}  // namespace
}  // namespace shoal::coordinator
