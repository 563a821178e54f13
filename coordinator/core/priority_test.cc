// Which job gets devices first, and which one gives them up for it.
#include "coordinator/core/priority.h"

#include <gmock/gmock.h>

#include "coordinator/core/pause_test_util.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

JobSpec job_of(const std::string& name, std::int64_t priority, std::int64_t replicas = 1) {
  JobSpec spec = small_job(name);
  spec.train.steps = Steps(100);
  spec.swarm.priority = priority;
  spec.swarm.min_replicas = replicas;
  spec.swarm.max_replicas = replicas;
  return spec;
}

JobSpec pipeline(const std::string& name, std::int64_t priority) {
  JobSpec spec = job_of(name, priority);
  spec.model.layers = 2;
  spec.swarm.stages = 2;
  return spec;
}

// Agents of one device each, and jobs of one replica that train on them.
struct Crowd : Operated<Rig> {
  ConnectionId add_agent() {
    agents.push_back(join("agent-" + std::to_string(agents.size())));
    return agents.back();
  }
  // On the next free device, in its first round.
  JobId add_job(const JobSpec& spec) {
    const JobId id = *submit(spec);
    stay(seconds(3));
    for (const ConnectionId agent : agents) {
      const auto assign = last<Assign>(agent);
      if (assign && assign->job == id) load(agent);
    }
    stay(seconds(3));
    EXPECT_EQ(job(id).phase, JobPhase::kTraining) << spec.name;
    return id;
  }
  void stay(Duration d) {
    for (Duration passed; passed < d; passed = passed + seconds(1)) {
      wait(seconds(1));
      for (const ConnectionId agent : agents) say(agent, Heartbeat{});
    }
  }
  std::vector<ConnectionId> agents;
};

// A job on two agents, and one of higher priority that needs both.
struct Preempted : Pair {
  Preempted() {
    commit(1), evaluate(1), store(id);
    high = *submit(job_of("high", 70, 2));
    stay(options.preempt_after);
  }
  void give_way() {
    commit(2), evaluate(2);
    checkpoint = store(id);
  }
  JobId high;
};

TEST(Priority, TheHigherJobIsPlacedFirst) {
  Rig rig;
  const JobId low = *rig.submit(job_of("low", 50)), high = *rig.submit(job_of("high", 51));
  const ConnectionId a = rig.join("a"), b = rig.join("b");
  EXPECT_EQ(rig.last<Assign>(a)->job, high);
  EXPECT_EQ(rig.last<Assign>(b)->job, low);
}

TEST(Priority, AmongEqualsTheOlderJobIsPlacedFirst) {
  Rig rig;
  const JobId older = *rig.submit(job_of("older", 70));
  ASSERT_TRUE(rig.submit(job_of("younger", 70)).ok());
  EXPECT_EQ(rig.last<Assign>(rig.join("a"))->job, older);
}

TEST(Priority, AChangeOfItCountsAtOnce) {
  Rig rig;
  ASSERT_TRUE(rig.submit(job_of("older", 50)).ok());
  const JobId younger = *rig.submit(job_of("younger", 50));
  rig.input(ChangeJob{.request = RequestId{3}, .job = younger, .priority = 51});
  EXPECT_EQ(rig.last<Assign>(rig.join("a"))->job, younger);
}

TEST(Priority, AHigherJobDoesNotWaitForThePlanOfALowerPipeline) {
  for (const std::int64_t priority : {50, 51}) {
    Rig rig;
    const JobId low = *rig.submit(pipeline("low", 50));
    const ConnectionId a = rig.join("a");
    rig.wait(seconds(2));
    rig.join("b");
    ASSERT_TRUE(rig.state().timers.at(low).gathered_at) << "it waits for late devices";
    ASSERT_TRUE(rig.submit(job_of("high", priority)).ok());
    EXPECT_EQ(rig.last<Assign>(a).has_value(), priority > 50) << priority;
  }
}

TEST(Preemption, FinishesTheRoundAndStoresItBeforeDevicesAreLetGo) {
  Preempted rig;
  EXPECT_EQ(rig.job(rig.id).yields_to, rig.high);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.job(rig.id).desired, JobDesired::kRun) << "its operator has not asked for it";
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kPreempted);
  EXPECT_THAT(rig.job(rig.id).detail, HasSubstr("round 2 is finished first"));
  EXPECT_THAT(rig.job(rig.id).detail, HasSubstr("job high of priority 70"));
  EXPECT_EQ(rig.count_events(event_kind::kJobPreempted), 1);
  rig.commit(2);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kFinalizing);
  EXPECT_FALSE(rig.last<Release>(rig.a)) << "it is not stored yet";
  rig.evaluate(2), rig.store(rig.id);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kQueued);
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
  EXPECT_EQ(rig.job(rig.id).epoch, 0) << "nothing was lost";
  EXPECT_EQ(rig.job(rig.id).yields_to, JobId());
  EXPECT_EQ(rig.last<Assign>(rig.a)->job, rig.high);
  EXPECT_EQ(rig.last<Assign>(rig.b)->job, rig.high);
}

TEST(Preemption, WaitsUntilTheHigherJobHasLackedDevicesForAWhile) {
  Pair rig;
  ASSERT_TRUE(rig.submit(job_of("high", 70, 2)).ok());
  rig.stay(rig.options.preempt_after - seconds(1));
  EXPECT_EQ(rig.job(rig.id).yields_to, JobId()) << "a device may come";
  rig.stay(seconds(1));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kQueued) << "it had committed nothing";
}

TEST(Preemption, TheHigherJobSaysWhoYieldsToIt) {
  Preempted rig;
  rig.report(rig.a, rig.rep_a, rig.key(2));
  EXPECT_THAT(rig.job(rig.high).detail,
              HasSubstr("job job of priority 50 gives its devices up after round 2"));
}

TEST(Preemption, TheLowerJobSaysWhoHasTheDevices) {
  Preempted rig;
  rig.give_way();
  rig.stay(seconds(1));
  rig.load_what_is_told(rig.a), rig.load_what_is_told(rig.b);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kHigherPriority);
  EXPECT_EQ(rig.job(rig.id).detail, "waits for 2 devices; job high of priority 70 has 2");
}

TEST(Preemption, TheLowerJobContinuesByItself) {
  Preempted rig;
  rig.give_way();
  rig.input(CancelJob{RequestId{3}, rig.high});
  EXPECT_EQ(rig.last<Assign>(rig.a)->job, rig.id);
  EXPECT_EQ(rig.last<Assign>(rig.a)->source.checkpoint, rig.checkpoint);
  rig.load_again();
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.last<ToReplica<OpenRound>>(rig.a)->body.key, rig.key(3)) << "the same epoch";
}

TEST(Preemption, ItKeepsItsDevicesWhenNobodyClaimsThemAnyMore) {
  Preempted rig;
  rig.input(CancelJob{RequestId{3}, rig.high});
  EXPECT_EQ(rig.job(rig.id).yields_to, JobId());
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kRunning);
  rig.commit(2);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_TRUE(rig.state().rounds.contains(rig.key(3)));
}

TEST(Preemption, OutlivesTheCoordinator) {
  Preempted rig;
  rig.restart();
  rig.a = rig.join("a", Incarnation{1}, {rig.rep_a});
  rig.b = rig.join("b", Incarnation{1}, {rig.rep_b});
  rig.stay(rig.options.preempt_after + seconds(1));
  EXPECT_EQ(rig.job(rig.id).yields_to, rig.high);
  rig.commit(2);
  rig.restart();
  rig.a = rig.join("a", Incarnation{1}, {rig.rep_a});
  rig.b = rig.join("b", Incarnation{1}, {rig.rep_b});
  rig.stay(seconds(2));
  rig.evaluate(2), rig.store(rig.id);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kQueued);
  EXPECT_EQ(rig.last<Assign>(rig.a)->job, rig.high);
}

TEST(Preemption, AnOperatorsPauseStandsWhenItHasGivenWay) {
  Preempted rig;
  ASSERT_TRUE(rig.pause(rig.id).ok());
  rig.give_way();
  rig.expect_paused_at(rig.id, 2);
  EXPECT_EQ(rig.job(rig.id).yields_to, JobId());
}

TEST(Preemption, NeverTakesFromTheSamePriority) {
  Pair rig;
  const JobId other = *rig.submit(job_of("other", kPriorityDefault, 2));
  rig.stay(seconds(60));
  EXPECT_EQ(rig.job(rig.id).yields_to, JobId());
  EXPECT_EQ(rig.job(other).reason, JobReason::kWaitingForReplicas);
  EXPECT_EQ(rig.count_events(event_kind::kJobPreempted), 0);
}

TEST(Preemption, TakesFromTheLowestAndFromNoMoreThanNeeded) {
  Crowd rig;
  for (int i = 0; i < 3; ++i) rig.add_agent();
  const JobId middle = rig.add_job(job_of("middle", 30)), low = rig.add_job(job_of("low", 10)),
              upper = rig.add_job(job_of("upper", 40));
  ASSERT_TRUE(rig.submit(job_of("high", 70, 2)).ok());
  rig.stay(rig.options.preempt_after);
  EXPECT_EQ(rig.job(low).phase, JobPhase::kQueued);
  EXPECT_EQ(rig.job(middle).phase, JobPhase::kQueued);
  EXPECT_EQ(rig.job(upper).phase, JobPhase::kTraining);
}

TEST(Preemption, SparesAJobWhoseDeviceDoesNotHelp) {
  Crowd rig;
  JobSpec large = job_of("high", 70);
  large.model.hidden = 512;
  large.model.vocab = 32'768;
  rig.device_memory = mebibytes(64);
  rig.add_agent();
  const JobId on_small = rig.add_job(job_of("low", 10));
  rig.device_memory = mebibytes(4096);
  rig.add_agent();
  const JobId on_large = rig.add_job(job_of("middle", 30));
  ASSERT_TRUE(rig.submit(large).ok());
  rig.stay(rig.options.preempt_after);
  EXPECT_EQ(rig.job(on_small).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.job(on_large).phase, JobPhase::kQueued);
}

TEST(Preemption, TakesNothingThatWouldNotBeEnough) {
  Crowd rig;
  for (int i = 0; i < 2; ++i) rig.add_agent();
  const JobId low = rig.add_job(job_of("low", 10)), middle = rig.add_job(job_of("middle", 30));
  ASSERT_TRUE(rig.submit(job_of("high", 70, 3)).ok());
  rig.stay(seconds(60));
  EXPECT_EQ(rig.job(low).phase, JobPhase::kTraining);
  EXPECT_EQ(rig.job(middle).phase, JobPhase::kTraining);
}

TEST(Preemption, DevicesThatJoinMeanwhileAreTheHigherJobs) {
  Preempted rig;
  const ConnectionId c = rig.join("c"), d = rig.join("d");
  EXPECT_EQ(rig.last<Assign>(c)->job, rig.high);
  EXPECT_EQ(rig.last<Assign>(d)->job, rig.high);
  EXPECT_EQ(rig.job(rig.id).yields_to, JobId()) << "it has what it needs";
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kRunning);
}

// A pipeline begins with all its devices at once: what comes free first must wait for the rest.
TEST(Preemption, APipelineKeepsWhatComesFreeFirst) {
  Crowd rig;
  const ConnectionId a = rig.add_agent();
  rig.add_agent();
  const JobId first = rig.add_job(job_of("first", 10));
  const JobId second = rig.add_job(job_of("second", 20));
  const RoundKey key{second, 0, 1};
  const ConnectionId b = rig.agents[1];
  const ReplicaId replica = rig.last<Assign>(b)->replica;
  rig.report(b, replica, key), rig.vote(b, replica, key, 1), rig.applied(b, replica, key, {9, 9});
  rig.store(second);
  ASSERT_EQ(rig.job(second).committed_round, 1);
  JobSpec spec = pipeline("high", 70);
  spec.swarm.min_replicas = spec.swarm.max_replicas = 2;  // a device may serve both stages, once
  const JobId high = *rig.submit(spec);
  rig.stay(rig.options.preempt_after);
  ASSERT_EQ(rig.job(first).phase, JobPhase::kQueued) << "at once: it had committed nothing";
  ASSERT_EQ(rig.job(second).phase, JobPhase::kTraining);
  rig.stay(seconds(20));
  EXPECT_EQ(rig.job(first).phase, JobPhase::kQueued);
  EXPECT_EQ(rig.job(first).reason, JobReason::kHigherPriority);
  EXPECT_EQ(rig.job(first).detail, "job high of priority 70 gets the next free devices");
  EXPECT_FALSE(rig.last<Assign>(a)->job == high) << "it waits for the second device";
}

TEST(Preemption, TheQuotaOfTheOwnerHolds) {
  for (const bool own : {false, true}) {
    Crowd rig;
    rig.options.quotas = {.each = 0, .of = {{"ada", 1}}};
    rig.restart();
    rig.add_agent(), rig.add_agent();
    const auto submit = [&](const JobSpec& spec, const std::string& owner) {
      rig.input(SubmitJob{RequestId{1}, spec, false, {}, owner});
      return *rig.replies.back().result;
    };
    const JobId hers = submit(job_of("hers", own ? 10 : 70), "ada");
    const JobId his = submit(job_of("his", 20), "bob");
    submit(job_of("high", 70), "ada");
    rig.stay(seconds(30));
    EXPECT_EQ(rig.job(his).yields_to, JobId());
    EXPECT_NE(rig.job(his).phase, JobPhase::kQueued) << "ada has her device";
    EXPECT_EQ(rig.job(hers).phase == JobPhase::kQueued, own);
  }
}

}  // namespace
}  // namespace shoal::coordinator
