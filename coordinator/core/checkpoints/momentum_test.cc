// The keepers of sharded momentum follow from the committed parts; parts stay while the members do;
// what nobody has is told.
#include "coordinator/core/checkpoints/momentum.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/round_facts.h"
#include "job/sync_spec_test_util.h"
#include "outer_opt/core/step/momentum_shards.h"

namespace shoal::coordinator {
namespace {

using testing::IsEmpty;

struct Sharded : Rig {
  explicit Sharded(std::size_t members) {
    JobSpec spec = small_job();
    change_sync(spec, [](SyncSpec& sync) {
      sync.outer_state = OuterState::kSharded;
      sync.outer = {0.6, 0.8};
    });
    spec.swarm.max_replicas = static_cast<std::int32_t>(members);
    spec.checkpoint.every_rounds = 1;
    for (std::size_t i = 0; i < members; ++i) agents.push_back(join("a" + std::to_string(i)));
    id = *submit(spec);
    for (const ConnectionId agent : agents) replicas.push_back(load_shard(agent));
    wait(seconds(3));
  }
  // Nobody takes a digest of sharded momentum.
  ReplicaId load_shard(ConnectionId agent) {
    const Assign assign = last<Assign>(agent).value();
    say(agent, Loaded{assign.replica,
                      assign.source.key,
                      {7, 7},
                      {},
                      1000,
                      "127.0.0.1:" + std::to_string(7100 + agent.n),
                      {}});
    return assign.replica;
  }
  RoundKey key(RoundNumber round) const { return {id, 0, round}; }
  void report_all(RoundNumber round) {
    for (std::size_t i = 0; i < agents.size(); ++i) {
      if (replicas[i]) report(agents[i], replicas[i], key(round));
    }
  }
  // All report; the first one knows a slow line to the last one beside fast ones.
  void report_lines(RoundNumber round) {
    const std::size_t last = agents.size() - 1;
    for (std::size_t i = 0; i < agents.size(); ++i) {
      RoundReport body{.key = key(round), .tokens = Tokens(1280), .steps = Steps(10)};
      body.drawn = body.tokens;
      body.norm = 1;
      if (i == 0) body.links = {line(1, 1e8, 1e8), line(last, 1e6, 1e6)};
      say(agents[i], FromReplica<RoundReport>{replicas[i], body});
    }
  }
  LinkEstimate line(std::size_t to, double up, double down) const {
    return {replicas[to], milliseconds(20), up, down, true};
  }
  ReducePlan plan(std::size_t member) {
    return last<ToReplica<ReducePlan>>(agents[member]).value().body;
  }
  void commit_all(RoundNumber round) {
    report_all(round);
    const std::int32_t attempt = plan(agents.size() - 1).attempt;
    for (std::size_t i = 0; i < agents.size(); ++i) {
      if (replicas[i]) vote(agents[i], replicas[i], key(round), attempt);
    }
    for (std::size_t i = 0; i < agents.size(); ++i) {
      if (replicas[i]) {
        say(agents[i], FromReplica<Applied>{replicas[i], Applied{key(round), {6, 6}, {}}});
      }
    }
  }
  void lose(std::size_t member) {
    say(agents[member],
        ReplicaFailed{std::exchange(replicas[member], {}), ReplicaFailure::kTrainerExited, ""});
  }
  std::int64_t events_of_loss() const {
    return std::count_if(events.begin(), events.end(), [](const EventRecord& event) {
      return event.kind == event_kind::kMomentumLost;
    });
  }

  std::vector<ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  JobId id;
};

std::vector<std::int64_t> parts_of(const ReducePlan& plan) {
  std::vector<std::int64_t> counts;
  for (const ReduceMember& member : plan.members) counts.push_back(member.part_count);
  return counts;
}

TEST(Momentum, PartsStayWhileTheMembersDo) {
  Sharded s(3);
  s.commit_all(1);
  const ReducePlan first = s.plan(0);
  ASSERT_TRUE(first.owner_step);
  EXPECT_EQ(first.owner_step->outer, (OwnerTerms{0.6, 0.8}));
  EXPECT_THAT(first.owner_step->holders, IsEmpty()) << "all momentum is zero";
  s.report_lines(2);
  const ReducePlan second = s.plan(0);
  EXPECT_EQ(parts_of(second), parts_of(first)) << "whatever is known of lines by now";
  EXPECT_EQ(outer_opt::most_missing(second), 0);
  EXPECT_EQ(outer_opt::values_without_holder(1000, second.owner_step->holders), 0);
  EXPECT_EQ(s.events_of_loss(), 0);
}

TEST(Momentum, WithAnotherMemberPartsFollowTheLines) {
  Sharded s(3);
  s.commit_all(1);
  const std::vector<std::int64_t> before = parts_of(s.plan(0));
  s.lose(1);
  s.agents[1] = s.join("another");
  s.wait(milliseconds(10));
  s.replicas[1] = s.last<Assign>(s.agents[1])->replica;
  const Assign assign = *s.last<Assign>(s.agents[1]);
  s.say(s.agents[1],
        Loaded{assign.replica, assign.source.key, {6, 6}, {}, 1000, "127.0.0.1:1", {}});
  for (const MomentumHolder& holder : momentum_holders(s.state(), s.job(s.id), 0)) {
    EXPECT_NE(holder.replica, s.replicas[1]) << "a peer gave it parameters only";
  }
  s.report_lines(2);
  const ReducePlan plan = s.plan(0);
  ASSERT_EQ(plan.key.round, 2);
  ASSERT_EQ(plan.members.size(), 3u);
  EXPECT_NE(parts_of(plan), before);
}

TEST(Momentum, WhoCannotBeDialedAnyMoreKeepsNoPart) {
  Sharded s(3);
  s.commit_all(1);
  RoundReport body{.key = s.key(2), .tokens = Tokens(1280), .steps = Steps(10)};
  body.drawn = body.tokens;
  body.norm = 1;
  for (const std::size_t i : {0u, 1u}) {
    body.links = {{s.replicas[2], Duration(), 0, 0, false}};
    s.say(s.agents[i], FromReplica<RoundReport>{s.replicas[i], body});
  }
  s.report(s.agents[2], s.replicas[2], s.key(2));
  const ReducePlan plan = s.plan(0);
  ASSERT_EQ(plan.key.round, 2);
  EXPECT_EQ(plan.members[2].part_count, 0);
}

// Replicas that have taken the outer step surely have its momentum; those still at it come after
// them.
TEST(Momentum, WhoHoldsTheCommittedRoundIsAskedFirst) {
  Sharded s(3);
  s.report_all(1);
  for (std::size_t i = 0; i < 3; ++i) s.vote(s.agents[i], s.replicas[i], s.key(1), 1);
  for (const std::size_t i : {1u, 2u}) {
    s.say(s.agents[i], FromReplica<Applied>{s.replicas[i], Applied{s.key(1), {6, 6}, {}}});
  }
  const auto holders = momentum_holders(s.state(), s.job(s.id), 0);
  ASSERT_EQ(holders.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(holders[i].replica == s.replicas[0], i >= 4) << i;
}

TEST(Momentum, WhoLoadedTheCheckpointHasAllOfIt) {
  Sharded s(2);
  s.commit_all(1);
  const auto asked = s.last<ToReplica<WriteCheckpoint>>(s.agents[0])->body;
  s.say(s.agents[0], CheckpointWritten{s.replicas[0], asked.checkpoint, asked.key, part_files()});
  s.input(CheckpointUploaded{asked.checkpoint, 0, part_files()});
  s.lose(0), s.lose(1);
  for (const auto agent : s.agents) s.say(agent, Heartbeat{});
  s.wait(seconds(2));
  for (std::size_t i = 0; i < 2; ++i) {
    const Assign assign = *s.last<Assign>(s.agents[i]);
    ASSERT_EQ(assign.source.kind, SourceKind::kCheckpoint);
    s.say(s.agents[i],
          Loaded{assign.replica, assign.source.key, {6, 6}, {}, 1000, "127.0.0.1:1", {}});
    s.replicas[i] = assign.replica;
  }
  const auto holders = momentum_holders(s.state(), s.job(s.id), 0);
  ASSERT_EQ(holders.size(), 2u);
  for (const MomentumHolder& holder : holders) {
    EXPECT_EQ(holder.first, 0);
    EXPECT_EQ(holder.count, 1000);
  }
  s.commit_all(2);
  for (const MomentumHolder& holder : momentum_holders(s.state(), s.job(s.id), 0)) {
    EXPECT_EQ(holder.count, 500) << "of the next round the parts only";
  }
  EXPECT_EQ(s.events_of_loss(), 0);
}

TEST(Momentum, OneThatLeavesTakesNothingWithIt) {
  Sharded s(3);
  s.commit_all(1);
  s.lose(1);
  s.report_all(2);
  const ReducePlan plan = s.plan(2);
  ASSERT_EQ(plan.members.size(), 2u);
  EXPECT_EQ(outer_opt::values_without_holder(1000, plan.owner_step->holders), 0);
  EXPECT_GT(outer_opt::most_missing(plan), 0);
  EXPECT_EQ(s.events_of_loss(), 0);
}

TEST(Momentum, NeighborsThatLeaveTogetherAreTold) {
  Sharded s(4);
  s.commit_all(1);
  s.lose(1);
  s.lose(2);
  s.report_all(2);
  const ReducePlan plan = s.plan(0);
  EXPECT_EQ(outer_opt::values_without_holder(1000, plan.owner_step->holders), 250);
  EXPECT_GE(s.events_of_loss(), 1);
}

// Replica 0 sends fast to 1 and receives fast from 2, the others only half of that each.
TEST(Momentum, OneFastLineDoesNotOwnEverything) {
  Sharded s(3);
  RoundReport body;
  body.key = s.key(1);
  body.tokens = body.drawn = Tokens(1280);
  body.steps = Steps(10);
  body.norm = 1;
  body.links = {s.line(0, 1e4, 1e6), s.line(2, 1e4, 1e4)};
  s.say(s.agents[1], FromReplica<RoundReport>{s.replicas[1], body});
  body.links = {s.line(0, 1e6, 1e4)};
  s.say(s.agents[2], FromReplica<RoundReport>{s.replicas[2], body});
  s.report(s.agents[0], s.replicas[0], s.key(1));
  const std::vector<std::int64_t> parts = parts_of(s.plan(0));
  EXPECT_GE(std::count_if(parts.begin(), parts.end(), [](std::int64_t n) { return n > 0; }), 2);
}

// Its members are not in the restored tables: what they keep they say themselves.
struct Adopted : Sharded {
  Adopted() : Sharded(3) {
    commit_all(1);
    backup = snapshot();
    backup.counters.backup_at = now;
    commit_all(2);
    held = held_replicas(state(), replicas);
    before = momentum_holders(state(), job(id), 0);
  }
  void put_back() {
    restore(backup);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string name = "a" + std::to_string(i);
      Hello hello{.uid = "uid-" + name, .name = name, .incarnation = Incarnation{1}};
      hello.devices = state().agents.begin()->second.devices;
      hello.replicas = {held[i]};
      agents[i] = ConnectionId{801 + i};
      input(AgentHello{agents[i], hello});
    }
    for (int i = 0; i < 10; ++i) {
      wait(seconds(1));
      for (const ConnectionId agent : agents) say(agent, Heartbeat{});
    }
    ASSERT_EQ(job(id).committed_round, 2);
  }

  Snapshot backup;
  std::vector<HeldReplica> held;
  std::vector<MomentumHolder> before;
};

TEST(Momentum, AnAdoptedRoundHasItsHolders) {
  Adopted s;
  s.put_back();
  EXPECT_EQ(momentum_holders(s.state(), s.job(s.id), 0), s.before);
  s.restart();
  EXPECT_EQ(momentum_holders(s.state(), s.job(s.id), 0), s.before);
  EXPECT_EQ(s.events_of_loss(), 0);
}

// They loaded a checkpoint that was found on disk: nobody could tell them how long it is.
TEST(Momentum, WhoLoadedACheckpointOfUnknownLengthKeepsAllOfIt) {
  Adopted s;
  for (std::size_t i = 0; i < 3; ++i) {
    s.held[i].record.momentum_holders = {{s.replicas[i], "", 0, 0}};
    s.sign(s.held[i]);
  }
  s.put_back();
  const auto holders = momentum_holders(s.state(), s.job(s.id), 0);
  ASSERT_EQ(holders.size(), 3u);
  for (const MomentumHolder& holder : holders) EXPECT_EQ(holder.count, 1000);
  EXPECT_EQ(s.events_of_loss(), 0);
}

// A member that hears its plan again later must hear the same holders, regardless of who has died
// since.
TEST(Momentum, HoldersOfAPlanSurviveARestart) {
  Sharded s(3);
  s.commit_all(1);
  s.report_all(2);
  const ReducePlan before = plan_of(s.state(), s.key(2), 0);
  s.restart();
  EXPECT_EQ(plan_of(s.state(), s.key(2), 0), before);
  EXPECT_EQ(before.owner_step->holders.size(), 6u);
}

TEST(Momentum, TheWriterOfACheckpointIsToldWhoKeepsWhat) {
  Sharded s(3);
  s.commit_all(1);
  const auto wanted = s.last<ToReplica<WriteCheckpoint>>(s.agents[0]);
  ASSERT_TRUE(wanted);
  EXPECT_EQ(wanted->body.key, s.key(1));
  EXPECT_EQ(wanted->body.momentum.size(), 6u);
  EXPECT_EQ(outer_opt::values_without_holder(1000, wanted->body.momentum), 0);
}

TEST(Momentum, ReplicatedJobsHaveNone) {
  Rig rig;
  const ConnectionId agent = rig.join("a");
  JobSpec spec = small_job();
  spec.swarm.min_replicas = 1;
  const JobId id = *rig.submit(spec);
  rig.wait(seconds(3));
  const ReplicaId replica = rig.load(agent);
  rig.wait(seconds(3));
  rig.report(agent, replica, {id, 0, 1});
  const auto told = rig.last<ToReplica<ReducePlan>>(agent);
  ASSERT_TRUE(told);
  EXPECT_FALSE(told->body.owner_step);
  rig.vote(agent, replica, {id, 0, 1}, 1);
  rig.applied(agent, replica, {id, 0, 1}, {6, 6});
  ASSERT_EQ(rig.job(id).committed_round, 1);
  EXPECT_THAT(momentum_holders(rig.state(), rig.job(id), 0), IsEmpty());
}

}  // namespace
}  // namespace shoal::coordinator
