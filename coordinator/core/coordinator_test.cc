// The coordinator as a whole, one stage. The rig is in coordinator_test_util.h.
#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/state/machines.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

// Two agents, the job submitted, loaded and in its first round.
struct Running : Rig {
  Running() {
    a = join("a");
    b = join("b");
    id = *submit(small_job());
    rep_a = load(a);
    rep_b = load(b);
    wait(seconds(3));
    key = {id, 0, 1};
  }
  void report_all(RoundKey k) {
    report(a, rep_a, k);
    report(b, rep_b, k);
  }
  void commit_round(RoundKey k, Digest anchor) {
    report_all(k);
    vote(a, rep_a, k, 1);
    vote(b, rep_b, k, 1);
    applied(a, rep_a, k, anchor);
    applied(b, rep_b, k, anchor);
  }
  ConnectionId a, b;
  ReplicaId rep_a, rep_b;
  JobId id;
  RoundKey key;
};

TEST(CoordinatorCore, TrainsAJobToItsEnd) {
  Running rig;
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  const auto open = rig.last<ToReplica<OpenRound>>(rig.a).value();
  EXPECT_EQ(open.body.key, rig.key);
  EXPECT_EQ(open.body.leases.at(0).count, 40);
  EXPECT_NE(rig.last<ToReplica<OpenRound>>(rig.b)->body.leases.at(0).first,
            open.body.leases.at(0).first);

  rig.commit_round(rig.key, {11, 11});
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.job(rig.id).committed_tokens, Tokens(2560));
  EXPECT_EQ(rig.job(rig.id).stages.at(0).anchor, (Digest{11, 11}));
  EXPECT_DOUBLE_EQ(rig.job(rig.id).train_loss, 2.5);
  const auto commit = rig.last<ToReplica<CommitRound>>(rig.a).value().body;
  EXPECT_FALSE(commit.last);
  EXPECT_EQ(commit.next.from_step, Steps(10));
  EXPECT_EQ(commit.evaluate.slices, 2);
  const auto asked = rig.last<ToReplica<WriteCheckpoint>>(rig.a).value().body;
  EXPECT_EQ(asked.key, rig.key);

  rig.commit_round({rig.id, 0, 2}, {12, 12});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kSealing);
  EXPECT_TRUE(rig.last<ToReplica<CommitRound>>(rig.b)->body.last);
  const auto final = rig.last<ToReplica<WriteCheckpoint>>(rig.a).value().body;
  EXPECT_EQ(final.key.round, 2);
  rig.say(rig.a, CheckpointWritten{rig.rep_a, final.checkpoint, final.key, {}, "Ahab"});
  rig.input(CheckpointUploaded{final.checkpoint});
  EXPECT_EQ(rig.state().checkpoints.at(final.checkpoint).sample, "Ahab");
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kSealing);  // the evaluation is still out
  rig.say(rig.a, FromReplica<Evaluated>{rig.rep_a, {final.key, {0, 2, 2}, 30.0, Tokens(10)}});
  rig.say(rig.b, FromReplica<Evaluated>{rig.rep_b, {final.key, {1, 2, 2}, 10.0, Tokens(10)}});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCompleted);
  EXPECT_DOUBLE_EQ(rig.job(rig.id).validation_loss, 2.0);
  EXPECT_EQ(rig.last<Release>(rig.b)->reason, ReleaseReason::kCompleted);
}

TEST(CoordinatorCore, ATrainerLostInTheReduceCostsOneAttempt) {
  Running rig;
  const ConnectionId c = rig.join("c");
  rig.load(c);  // joins with weight 0 at the seal
  rig.report_all(rig.key);
  EXPECT_EQ(rig.last<ToReplica<ReducePlan>>(rig.a)->body.members.size(), 3u);
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, "SIGKILL"});
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
  EXPECT_EQ(plan.attempt, 2);
  ASSERT_EQ(plan.members.size(), 2u);
  EXPECT_EQ(plan.members[0].replica, rig.rep_a);
  EXPECT_EQ(plan.members[1].weight, 0);
  rig.vote(rig.a, rig.rep_a, rig.key, 2);
  rig.vote(c, plan.members[1].replica, rig.key, 2);
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.job(rig.id).committed_tokens, Tokens(1280));
  // The lost one's sequences are given out again.
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.a)->body.next.leases.at(0).first, 40);
}

TEST(CoordinatorCore, GoesOnAfterItsOwnRestartAtEveryPoint) {
  Running rig;
  rig.report(rig.a, rig.rep_a, rig.key);
  const Incarnation first{1};
  const auto return_both = [&] {
    rig.restart();
    rig.a = rig.join("a", first, {rig.rep_a});
    rig.b = rig.join("b", first, {rig.rep_b});
  };
  return_both();
  EXPECT_TRUE(rig.last<ToReplica<OpenRound>>(rig.b));  // b has not reported yet
  rig.report(rig.b, rig.rep_b, rig.key);
  return_both();
  EXPECT_EQ(rig.last<ToReplica<ReducePlan>>(rig.a)->body.attempt, 1);
  rig.vote(rig.a, rig.rep_a, rig.key, 1);
  return_both();
  rig.vote(rig.b, rig.rep_b, rig.key, 1);
  return_both();
  EXPECT_EQ(rig.last<ToReplica<CommitRound>>(rig.a)->body.key, rig.key);
  rig.applied(rig.a, rig.rep_a, rig.key, {11, 11});
  rig.applied(rig.b, rig.rep_b, rig.key, {11, 11});
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(CoordinatorCore, AnAgentThatStaysAwayIsReplacedAndTheJobStalls) {
  Running rig;
  rig.input(AgentHungUp{rig.b});
  rig.say(rig.a, Heartbeat{});
  rig.wait(seconds(6));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kBelowMinReplicas);
  const ConnectionId c = rig.join("c");
  rig.load(c);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(CoordinatorCore, TheSilenceBeforeAStreamClosedCountsForTheLease) {
  Running rig;
  rig.say(rig.a, Heartbeat{});
  rig.say(rig.b, Heartbeat{});
  rig.wait(seconds(5));
  rig.say(rig.a, Heartbeat{});
  rig.input(AgentHungUp{rig.b});
  rig.wait(seconds(2));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  rig.wait(seconds(2));
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
}

TEST(CoordinatorCore, RestoresFromTheNewestCheckpointWhenAllReplicasAreLost) {
  Running rig;
  rig.commit_round(rig.key, {11, 11});
  const auto asked = rig.last<ToReplica<WriteCheckpoint>>(rig.a).value().body;
  rig.say(rig.a, CheckpointWritten{rig.rep_a, asked.checkpoint, asked.key, {}});
  rig.input(CheckpointUploaded{asked.checkpoint});
  rig.report_all({rig.id, 0, 2});
  rig.say(rig.a, ReplicaFailed{rig.rep_a, ReplicaFailure::kTrainerExited, ""});
  rig.say(rig.b, ReplicaFailed{rig.rep_b, ReplicaFailure::kTrainerExited, ""});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
  rig.say(rig.a, Heartbeat{});
  rig.say(rig.b, Heartbeat{});
  rig.wait(seconds(2));
  const Assign assign = rig.last<Assign>(rig.a).value();
  EXPECT_EQ(assign.source.kind, SourceKind::kCheckpoint);
  EXPECT_EQ(assign.source.checkpoint, asked.checkpoint);
  EXPECT_EQ(assign.source.anchor, (Digest{11, 11}));
  EXPECT_EQ(assign.source.momentum, (Digest{9, 9}));
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
  rig.load(rig.a, {11, 11});
  rig.load(rig.b, {1, 2});  // not what was stored: refused
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kStalled);
}

TEST(CoordinatorCore, TheOddAnchorIsReplaced) {
  Rig rig;
  const auto a = rig.join("a"), b = rig.join("b"), c = rig.join("c");
  const JobId id = *rig.submit(small_job());
  const auto ra = rig.load(a), rb = rig.load(b), rc = rig.load(c);
  rig.wait(seconds(3));
  const RoundKey key{id, 0, 1};
  rig.report(a, ra, key), rig.report(b, rb, key), rig.report(c, rc, key);
  rig.vote(a, ra, key, 1), rig.vote(b, rb, key, 1), rig.vote(c, rc, key, 1);
  rig.applied(a, ra, key, {66, 66});
  rig.applied(b, rb, key, {11, 11});
  rig.applied(c, rc, key, {11, 11});
  EXPECT_EQ(rig.job(id).stages.at(0).anchor, (Digest{11, 11}));
  EXPECT_EQ(rig.replicas_.at(ra).failure, ReplicaFailure::kDigestMismatch);
  EXPECT_TRUE(is_live(rig.state(), rb));
}

TEST(CoordinatorCore, ClipsToTheMedianNormAndRejectsNonFinite) {
  Running rig;
  const auto c = rig.join("c");
  const auto rc = rig.load(c);
  rig.commit_round(rig.key, {11, 11});  // c votes too
  EXPECT_EQ(rig.job(rig.id).committed_round, 0);
  rig.vote(c, rc, rig.key, 1);
  rig.applied(rig.a, rig.rep_a, rig.key, {11, 11});
  rig.applied(rig.b, rig.rep_b, rig.key, {11, 11});
  rig.applied(c, rc, rig.key, {11, 11});
  const RoundKey second{rig.id, 0, 2};
  rig.report(rig.a, rig.rep_a, second, 4.0);
  rig.report(rig.b, rig.rep_b, second, 2.0);
  rig.report_broken(c, rc, second);
  const auto plan = rig.last<ToReplica<ReducePlan>>(rig.a)->body;
  ASSERT_EQ(plan.members.size(), 3u);
  EXPECT_DOUBLE_EQ(plan.members[0].clip_factor, 0.75);  // median of 4 and 2 is 3
  EXPECT_DOUBLE_EQ(plan.members[1].clip_factor, 1.0);
  EXPECT_EQ(plan.members[2].weight, 0);
}

// Two replicas of a job with these words report norms of 4 and 2; the plan they get.
struct Reduced : Rig {
  explicit Reduced(const SyncSpec& sync) {
    const auto a = join("a"), b = join("b");
    JobSpec spec = small_job();
    const Steps every = spec.sync.every;
    spec.sync = sync;
    spec.sync.every = every;
    const JobId id = *submit(spec);
    const auto first = load(a), second = load(b);
    wait(seconds(3));
    key = {id, 0, 1};
    report(a, first, key, 4.0);
    report(b, second, key, 2.0);
    plan = last<ToReplica<ReducePlan>>(a)->body;
  }
  const RoundStage& stage() const { return state().rounds.at(key).stages.at(0); }
  RoundKey key;
  ReducePlan plan;
};

TEST(CoordinatorCore, TheTopologyOfAnAttemptIsKeptWithItsReason) {
  using outer_opt::TopologyReason;
  SyncSpec sync;
  sync.topology = Topology::kAuto;
  const Reduced chosen(sync);
  EXPECT_EQ(chosen.plan.topology, Topology::kButterfly);
  EXPECT_EQ(chosen.stage().choice.reason, TopologyReason::kFewestHops);
  sync.topology = Topology::kRing;
  const Reduced ring(sync);
  EXPECT_EQ(ring.plan.topology, Topology::kRing);
  EXPECT_EQ(ring.stage().choice.reason, TopologyReason::kAsked);
  EXPECT_EQ(ring.plan.members[1].part_first, ring.plan.members[0].part_count);
}

TEST(CoordinatorCore, NobodyOwnsAPartOfAnAllGather) {
  SyncSpec sync;
  sync.topology = Topology::kAuto;
  sync.codec = CodecKind::kSparse2;
  sync.outer = {1, 0};
  const Reduced sparse(sync);
  EXPECT_EQ(sparse.plan.topology, Topology::kAllgather);
  EXPECT_EQ(sparse.plan.codec, CodecKind::kSparse2);
  for (const ReduceMember& member : sparse.plan.members) EXPECT_EQ(member.part_count, 0);
}

TEST(CoordinatorCore, ClippingAndTheAggregatorAreWhatTheJobSays) {
  SyncSpec sync;
  const Reduced usual(sync);
  EXPECT_DOUBLE_EQ(usual.plan.members[0].clip_factor, 0.75);
  EXPECT_EQ(usual.plan.aggregator, Aggregator::kMean);
  sync.clip = false;
  sync.aggregator = Aggregator::kCenteredClip;
  const Reduced unclipped(sync);
  EXPECT_DOUBLE_EQ(unclipped.plan.members[0].clip_factor, 1.0);
  EXPECT_EQ(unclipped.plan.aggregator, Aggregator::kCenteredClip);
}

TEST(CoordinatorCore, AbortsWithoutUsableContributionAndKeepsTraining) {
  Running rig;
  for (const auto& [connection, replica] :
       {std::pair(rig.a, rig.rep_a), std::pair(rig.b, rig.rep_b)}) {
    RoundReport bad;
    bad.key = rig.key;
    bad.nonfinite = 1;
    rig.say(connection, FromReplica<RoundReport>{replica, bad});
  }
  const auto abort = rig.last<ToReplica<AbortRound>>(rig.a)->body;
  EXPECT_EQ(abort.reason, AbortReason::kNoUsableContribution);
  EXPECT_EQ(abort.next.from_step, Steps(10));
  EXPECT_EQ(abort.next.to_step, Steps(20));
  rig.commit_round(rig.key, {11, 11});
  EXPECT_EQ(rig.job(rig.id).committed_step, Steps(20));
}

TEST(CoordinatorCore, KeepsWhatAnAcceptedJobWasSubmittedAs) {
  Rig rig;
  rig.join("a");
  const SubmittedText text{{}, "application/toml", "# mine\n"};
  rig.input(SubmitJob{RequestId{1}, small_job(), true, text});
  rig.input(SubmitJob{RequestId{2}, small_job("Bad Name"), false, text});
  EXPECT_TRUE(rig.submitted.empty());
  rig.input(SubmitJob{RequestId{3}, small_job(), false, text});
  const SubmittedText kept{*rig.replies.back().result, text.media_type, text.text};
  EXPECT_EQ(rig.submitted, std::vector<SubmittedText>{kept});
}

TEST(CoordinatorCore, RefusesWhatItCannotDo) {
  Rig rig;
  rig.join("a");
  JobSpec spec = small_job();
  ASSERT_TRUE(rig.submit(spec).ok());
  EXPECT_EQ(rig.submit(spec).error().code, Code::kConflict);
  spec.name = "Bad Name";
  EXPECT_EQ(rig.submit(spec).error().code, Code::kValidation);
  EXPECT_EQ(rig.replies.back().fields.front().pointer, "/name");
  spec = small_job("huge");
  spec.model.hidden = 8192;
  spec.model.heads = 64;
  spec.model.layers = 80;
  EXPECT_EQ(rig.submit(spec).error().code, Code::kValidation);
  EXPECT_EQ(rig.replies.back().fields.front().pointer, "/model");
  rig.input(CancelJob{RequestId{2}, JobId(99)});
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kNotFound);
}

TEST(CoordinatorCore, RefusesAgentsOfAnotherProtocolOrName) {
  Rig rig;
  rig.join("a");
  Hello hello;
  hello.uid = "other";
  hello.name = "a";
  rig.input(AgentHello{ConnectionId{77}, hello});
  EXPECT_EQ(rig.last<Refused>(ConnectionId{77})->error.field, "name");
  hello.name = "b";
  hello.protocol = hello.protocol_min = kProtocolVersion + 1;
  rig.input(AgentHello{ConnectionId{78}, hello});
  EXPECT_EQ(rig.last<Refused>(ConnectionId{78})->error.code, Code::kIncompatible);
}

TEST(CoordinatorCore, CancelReleasesEverybody) {
  Running rig;
  rig.input(CancelJob{RequestId{5}, rig.id});
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kCancelled);
  EXPECT_EQ(rig.last<Release>(rig.a)->reason, ReleaseReason::kCancelled);
  EXPECT_TRUE(rig.state().replicas.empty());
  EXPECT_TRUE(rig.state().rounds.empty());
}

// Three agents of a job that needs two; the third joined while it was loading.
struct Three : Rig {
  Three() {
    for (const char* name : {"a", "b", "c"}) agents.push_back(join(name));
    id = *submit(small_job());
    for (const ConnectionId agent : agents) replicas.push_back(load(agent));
    wait(seconds(3));
    key = {id, 0, 1};
  }
  void commit_round() {
    for (std::size_t i = 0; i < 3; ++i) report(agents[i], replicas[i], key);
    for (std::size_t i = 0; i < 3; ++i) vote(agents[i], replicas[i], key, 1);
  }
  void command(AgentVerb verb, std::uint64_t agent) {
    input(CommandAgent{RequestId{9}, AgentId(agent), verb});
  }
  const AgentRecord& agent(std::uint64_t n) const { return state().agents.at(AgentId(n)); }

  std::vector<ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  JobId id;
  RoundKey key;
};

TEST(Drain, LetsAReplicaGoWhenItsRoundCommits) {
  Three rig;
  rig.command(AgentVerb::kDrain, 3);
  EXPECT_TRUE(rig.replies.back().result.ok());
  EXPECT_EQ(rig.agent(3).state, AgentState::kDraining);
  EXPECT_FALSE(rig.last<Release>(rig.agents[2])) << "in the middle of a round";
  rig.commit_round();
  EXPECT_EQ(rig.rounds_.at(rig.key).tokens, Tokens(3 * 1280)) << "what it trained counts";
  ASSERT_TRUE(rig.last<Release>(rig.agents[2]));
  EXPECT_EQ(rig.last<Release>(rig.agents[2])->reason, ReleaseReason::kDraining);
  EXPECT_EQ(rig.state().replicas.size(), 2u);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
  EXPECT_TRUE(std::any_of(rig.events.begin(), rig.events.end(), [](const EventRecord& event) {
    return event.kind == std::string(event_kind::kAgentDrained);
  }));
  EXPECT_EQ(rig.state().contributions.at({rig.key, rig.replicas[2]}).state,
            ContributionState::kCommitted);
  const RoundKey next{rig.id, 0, 2};
  EXPECT_TRUE(rig.state().contributions.contains({next, rig.replicas[1]}));
  EXPECT_FALSE(rig.state().contributions.contains({next, rig.replicas[2]}))
      << "it is no part of the round after its last";
  rig.restart();
  EXPECT_TRUE(rig.agent(3).cordoned);
  EXPECT_EQ(rig.state().replicas.size(), 2u) << "it gets no new one";
}

TEST(Drain, NeverGoesBelowTheMinimum) {
  Three rig;
  rig.command(AgentVerb::kDrain, 2);
  rig.command(AgentVerb::kDrain, 3);
  rig.commit_round();
  EXPECT_TRUE(rig.last<Release>(rig.agents[1]));
  EXPECT_FALSE(rig.last<Release>(rig.agents[2]));
  EXPECT_EQ(rig.state().replicas.size(), 2u);
  EXPECT_EQ(rig.job(rig.id).phase, JobPhase::kTraining);
}

TEST(Drain, ACordonedAgentKeepsItsWorkAndGetsNoMore) {
  Rig rig;
  const auto a = rig.join("a");
  rig.input(CommandAgent{RequestId{1}, AgentId(1), AgentVerb::kCordon});
  JobSpec spec = small_job();
  spec.swarm.min_replicas = 1;
  ASSERT_TRUE(rig.submit(spec).ok());
  EXPECT_FALSE(rig.last<Assign>(a));
  rig.input(CommandAgent{RequestId{2}, AgentId(1), AgentVerb::kUncordon});
  EXPECT_TRUE(rig.last<Assign>(a));
  rig.input(CommandAgent{RequestId{3}, AgentId(1), AgentVerb::kCordon});
  EXPECT_EQ(rig.state().replicas.size(), 1u);
}

TEST(Drain, AnotherAgentTakesThePlace) {
  Rig rig;
  const auto a = rig.join("a"), b = rig.join("b"), c = rig.join("c");
  JobSpec spec = small_job();
  spec.swarm.max_replicas = 2;
  ASSERT_TRUE(rig.submit(spec).ok());
  rig.load(a);
  rig.load(b);
  rig.wait(seconds(3));
  EXPECT_FALSE(rig.last<Assign>(c));
  rig.input(CommandAgent{RequestId{1}, AgentId(1), AgentVerb::kDrain});
  EXPECT_TRUE(rig.last<Assign>(c));
}

TEST(Drain, CanBeTakenBackBeforeTheCommit) {
  Three rig;
  rig.command(AgentVerb::kDrain, 3);
  rig.command(AgentVerb::kDrain, 3);
  rig.command(AgentVerb::kUncordon, 3);
  EXPECT_EQ(rig.agent(3).state, AgentState::kActive);
  EXPECT_FALSE(rig.agent(3).cordoned);
  rig.commit_round();
  EXPECT_EQ(rig.state().replicas.size(), 3u);
}

TEST(Drain, RefusesAgentsThatAreNotThere) {
  Rig rig;
  const auto a = rig.join("a");
  rig.say(a, Goodbye{"it left"});
  rig.input(CommandAgent{RequestId{1}, AgentId(1), AgentVerb::kDrain});
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kConflict);
  rig.input(CommandAgent{RequestId{2}, AgentId(7), AgentVerb::kDrain});
  EXPECT_EQ(rig.replies.back().result.error().code, Code::kNotFound);
}

TEST(CoordinatorCore, FailsAJobThatNoAgentCanLoad) {
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

TEST(CoordinatorCore, AJobThatHasTrainedOutlivesFilesThatAreMissing) {
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

TEST(CoordinatorCore, AnAgentThatIsStartedAnewIsAskedAgainAtOnce) {
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

TEST(CoordinatorCore, TellsAStragglerToReportWhatItHas) {
  Running rig;
  rig.report(rig.a, rig.rep_a, rig.key);
  for (int i = 0; i < 8; ++i) {
    rig.say(rig.a, Heartbeat{});
    rig.say(rig.b, Heartbeat{});
    rig.wait(seconds(5));
  }
  EXPECT_TRUE(rig.last<ToReplica<CloseRound>>(rig.b));
  EXPECT_FALSE(rig.last<ToReplica<CloseRound>>(rig.a));
}

TEST(Machines, TablesAllowWhatTheHeaderSays) {
  EXPECT_TRUE(allowed(JobPhase::kQueued, JobPhase::kGathering));
  EXPECT_FALSE(allowed(JobPhase::kQueued, JobPhase::kTraining));
  EXPECT_TRUE(allowed(JobPhase::kStalled, JobPhase::kFailed));
  EXPECT_FALSE(allowed(JobPhase::kCompleted, JobPhase::kFailed));
  EXPECT_FALSE(allowed(ReplicaState::kAssigned, ReplicaState::kServing));
  EXPECT_FALSE(allowed(ReplicaState::kFailed, ReplicaState::kReleased));
  EXPECT_FALSE(allowed(RoundState::kOpen, RoundState::kCommitted));
  EXPECT_FALSE(allowed(RoundState::kCommitted, RoundState::kAborted));
}

}  // namespace
}  // namespace shoal::coordinator
