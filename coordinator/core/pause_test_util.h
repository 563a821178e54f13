// Jobs that people pause and resume, with the agents played by hand: one on two agents, and one of
// two stages. For the tests of pauses.
#pragma once

#include <algorithm>

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {

inline JobSpec long_job() {
  JobSpec spec = small_job();
  spec.train.steps = Steps(100);
  return spec;
}

// What people and the service do, on top of any rig.
template <typename Base>
struct Operated : Base {
  using Base::Base;
  Result<JobId> pause(JobId id) {
    this->input(PauseJob{RequestId{7}, id});
    return this->replies.back().result;
  }
  Result<JobId> resume(JobId id) {
    this->input(ResumeJob{RequestId{8}, id});
    return this->replies.back().result;
  }
  // Every part of the newest checkpoint arrives.
  CheckpointId store(JobId id) {
    const CheckpointId checkpoint = newest(id);
    const std::size_t parts = this->state().checkpoints.at(checkpoint).parts.size();
    for (std::size_t stage = 0; stage < parts; ++stage) {
      this->upload(checkpoint, static_cast<StageIndex>(stage));
    }
    return checkpoint;
  }
  ReplicaId load_what_is_told(ConnectionId agent) {
    const Assign assign = *this->template last<Assign>(agent);
    const StateSource& source = assign.source;
    this->say(agent, Loaded{assign.replica, source.key, source.anchor, source.momentum, 1000,
                            "127.0.0.1:" + std::to_string(7100 + agent.n), this->fragments});
    return assign.replica;
  }
  CheckpointId newest(JobId id) const {
    CheckpointId found;
    for (const auto& [key, checkpoint] : this->state().checkpoints) {
      if (checkpoint.key.job == id) found = key;
    }
    return found;
  }
  std::int64_t count_events(const char* kind) const {
    return std::count_if(this->events.begin(), this->events.end(),
                         [&](const EventRecord& event) { return event.kind == kind; });
  }
  void expect_paused_at(JobId id, RoundNumber round) const {
    const JobRecord& job = this->job(id);
    EXPECT_EQ(job.phase, JobPhase::kPaused) << to_string(job.phase);
    EXPECT_EQ(job.reason, JobReason::kPausedByUser);
    EXPECT_EQ(job.desired, JobDesired::kPause);
    EXPECT_EQ(job.committed_round, round);
    EXPECT_EQ(job.finished_at.ns, 0);
    EXPECT_THAT(live_replicas(this->state(), id), testing::IsEmpty());
    EXPECT_THAT(live_reducers(this->state(), id), testing::IsEmpty());
    EXPECT_EQ(current_round(this->state(), job), nullptr) << "no round is open";
    EXPECT_FALSE(this->state().timers.at(id).wakeup_at) << "nothing is waited for";
  }
};

struct Pair : Operated<PairRig> {
  explicit Pair(const JobSpec& spec = long_job(), std::vector<std::int64_t> lengths = {})
      : Operated(spec, std::move(lengths)) {}
  void report_both(RoundNumber round) {
    report(a, rep_a, key(round)), report(b, rep_b, key(round));
  }
  void commit(RoundNumber round) {
    report_both(round);
    finish(round);
  }
  void evaluate(RoundNumber round) {
    say(a, FromReplica<Evaluated>{rep_a, {key(round), {0, 2, 2}, 30.0, Tokens(10)}});
    say(b, FromReplica<Evaluated>{rep_b, {key(round), {1, 2, 2}, 10.0, Tokens(10)}});
  }
  void stay(Duration d) {
    for (Duration passed; passed < d; passed = passed + seconds(1)) {
      wait(seconds(1));
      say(a, Heartbeat{}), say(b, Heartbeat{});
    }
  }
  // In training again, on the state that they are told to load.
  void load_again() {
    rep_a = load_what_is_told(a), rep_b = load_what_is_told(b);
    wait(seconds(3));
  }
  // Two rounds are committed, the second one while it was asked to pause.
  void pause_after_two() {
    commit(1), evaluate(1), store(id);
    ASSERT_TRUE(pause(id).ok());
    commit(2), evaluate(2);
    checkpoint = store(id);
  }
  CheckpointId checkpoint;
};

// Two stages on one agent each.
struct Piped : Operated<Rig> {
  explicit Piped(bool recut = false) {
    JobSpec spec = long_job();
    spec.model.layers = 2;
    spec.swarm.stages = 2;
    spec.swarm.min_replicas = 1;
    spec.swarm.recut = recut;
    adopt(spec);
    a = join("a"), b = join("b");
    wait(seconds(3));
    load(a), load(b);
    wait(seconds(3));
  }
  void commit(RoundNumber round) {
    const RoundKey key{id, 0, round};
    const auto both = [&](const auto& act) {
      for (const auto agent : {a, b}) act(agent, last<Assign>(agent)->replica);
    };
    both([&](auto agent, auto replica) { report(agent, replica, key); });
    both([&](auto agent, auto replica) { vote(agent, replica, key, 1); });
    both([&](auto agent, auto replica) { applied(agent, replica, key, {11, 11}); });
  }
  void evaluate(RoundNumber round) {
    for (const auto agent : {a, b}) {
      const Assign assign = *last<Assign>(agent);
      if (assign.stage != 0) continue;
      const RoundKey key{id, 0, round};
      say(agent, FromReplica<Evaluated>{assign.replica, {key, {0, 1, 2}, 30.0, Tokens(10)}});
    }
  }
  ConnectionId a, b;
  JobId id{1};
};

}  // namespace shoal::coordinator
