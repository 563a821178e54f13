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

// A database that says of itself that it is a backup, or is older than the files beside it.
struct BackupRig : HeldRig {
  Snapshot backup() const {
    Snapshot copy = snapshot();
    copy.counters.backup_at = now;
    return copy;
  }
  Snapshot before_the_job() const {
    Snapshot copy = backup();
    copy.jobs.clear(), copy.replicas.clear(), copy.rounds.clear();
    copy.contributions.clear(), copy.checkpoints.clear();
    copy.counters.next_job = id.n, copy.counters.next_replica = rep_a.n;
    return copy;
  }
  Hello hello(const std::string& name, std::vector<HeldReplica> held) const {
    Hello hello{.uid = "uid-" + name, .name = name};
    hello.incarnation = Incarnation{1};
    hello.devices = state().agents.begin()->second.devices;
    hello.replicas = std::move(held);
    return hello;
  }
  HeldReplica held(ReplicaId replica) const { return held_replicas(state(), {replica}).front(); }
  // A stored checkpoint as a manifest tells of it.
  CheckpointRecord stored(RoundNumber round, CheckpointId checkpoint) const {
    CheckpointRecord record;
    record.id = checkpoint;
    record.key = key(round);
    record.state = CheckpointState::kStored;
    record.step = Steps(round * 10);
    record.tokens = Tokens(round * 100);
    record.next_sequence = round * 20;
    record.parts = {{.writer = rep_a,
                     .state = CheckpointState::kStored,
                     .anchor = {static_cast<std::uint64_t>(round), 3},
                     .momentum = {9, 9},
                     .files = {{"model", Bytes(4), std::string(64, 'a')}}}};
    return record;
  }
  void connect_empty() {
    input(AgentHello{ConnectionId{801}, hello("a", {})});
    input(AgentHello{ConnectionId{802}, hello("b", {})});
  }
  void beat(int times) {
    for (int i = 0; i < times; ++i) {
      wait(seconds(2));
      say(ConnectionId{801}, Heartbeat{}), say(ConnectionId{802}, Heartbeat{});
    }
  }
  std::int64_t count(const char* kind) const {
    return std::ranges::count_if(events, [&](const EventRecord& e) { return e.kind == kind; });
  }
};

}  // namespace shoal::coordinator
