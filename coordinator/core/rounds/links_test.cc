// What is measured of the lines reaches the store, survives a restart, and decides the next reduce.
#include "coordinator/core/rounds/links.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/state/measured_lines.h"
#include "coordinator/core/transaction_test_util.h"
#include "job/sync_spec_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kMega = 1e6;

struct Swarm : Rig {
  explicit Swarm(std::size_t members, JobSpec spec = small_job()) {
    change_sync(spec, [](SyncSpec& sync) { sync.codec = CodecKind::kFp32; });
    spec.swarm.max_replicas = static_cast<std::int32_t>(members);
    for (std::size_t i = 0; i < members; ++i) agents.push_back(join("a" + std::to_string(i)));
    id = *submit(spec);
    for (const ConnectionId agent : agents) replicas.push_back(load(agent));
    wait(seconds(3));
  }
  RoundKey key() const { return {id, 0, 1}; }
  void report_links(std::size_t member, std::vector<LinkEstimate> links) {
    RoundReport body;
    body.key = key();
    body.tokens = body.drawn = Tokens(1280);
    body.steps = Steps(10);
    body.norm = 1;
    body.links = std::move(links);
    say(agents[member], FromReplica<RoundReport>{replicas[member], body});
  }
  LinkEstimate line(std::size_t to, double up, double down) const {
    return {replicas[to], milliseconds(20), up, down, true};
  }
  ReducePlan plan() { return last<ToReplica<ReducePlan>>(agents[0]).value().body; }
  std::vector<PeerAddress> asked(std::size_t member) {
    return last<ToReplica<OpenRound>>(agents[member]).value().body.measure;
  }
  AgentId agent(std::size_t i) const { return state().replicas.at(replicas[i]).agent; }

  std::vector<ConnectionId> agents;
  std::vector<ReplicaId> replicas;
  JobId id;
};

TEST(Links, UnequalLinesGiveUnequalParts) {
  Swarm s(3);
  s.report_links(0, {s.line(1, 8 * kMega, 8 * kMega), s.line(2, kMega, kMega)});
  s.report_links(1, {s.line(2, kMega, kMega)});
  EXPECT_THAT(links_of(s.state(), s.now, s.replicas),
              ElementsAre(testing::Field(&outer_opt::LinkedMember::bytes_per_s, 8 * kMega),
                          testing::Field(&outer_opt::LinkedMember::bytes_per_s, 8 * kMega),
                          testing::Field(&outer_opt::LinkedMember::bytes_per_s, kMega)));
  s.report_links(2, {});
  const ReducePlan plan = s.plan();
  EXPECT_EQ(plan.members[0].part_count, 500);
  EXPECT_EQ(plan.members[1].part_count, 500);
  EXPECT_EQ(plan.members[2].part_count, 0);
  EXPECT_EQ(plan.frame_values, kFrameValuesMin);
  EXPECT_TRUE(plan.entropy_coding);
}

TEST(Links, NothingMeasuredGivesEqualPartsAndTheUsualFrames) {
  Swarm s(2);
  for (std::size_t i = 0; i < 2; ++i) s.report_links(i, {});
  EXPECT_EQ(s.plan().members[0].part_count, 500);
  EXPECT_EQ(s.plan().frame_values, kFrameValuesUsual);
  EXPECT_FALSE(s.plan().entropy_coding);
}

TEST(Links, SurviveARestartAndGrowOld) {
  Swarm s(2);
  s.report_links(0, {s.line(1, 3 * kMega, 2 * kMega)});
  s.restart();
  EXPECT_EQ(links_of(s.state(), s.now, s.replicas)[0].bytes_per_s, 2 * kMega);
  const Instant later = s.now + kLinkFresh + seconds(1);
  EXPECT_EQ(links_of(s.state(), later, s.replicas)[0].bytes_per_s, 0);
}

TEST(Links, ALineThatIsKnownOneWayCountsAsThat) {
  Swarm s(2);
  s.report_links(0, {{s.replicas[1], milliseconds(20), 0, 2 * kMega, true}});
  for (const auto& member : links_of(s.state(), s.now, s.replicas)) {
    EXPECT_EQ(member.bytes_per_s, 2 * kMega);
  }
}

TEST(Links, OnlyARingIsInTheOrderOfTheLines) {
  for (const Topology topology : {Topology::kButterfly, Topology::kRing}) {
    JobSpec spec = small_job();
    change_sync(spec, [&](SyncSpec& sync) { sync.topology = topology; });
    Swarm s(3, spec);
    s.report_links(1, {s.line(2, 8 * kMega, 8 * kMega), s.line(0, kMega, kMega)});
    s.report_links(0, {});
    s.report_links(2, {});
    EXPECT_EQ(s.plan().members[0].replica == s.replicas[0], topology == Topology::kButterfly);
  }
}

TEST(Links, WhoIsDialedInVainByAllIsNotReachable) {
  Swarm s(3);
  s.report_links(0, {{s.replicas[1], {}, 0, 0, false}, {s.replicas[2], {}, 0, 0, false}});
  EXPECT_FALSE(links_of(s.state(), s.now, s.replicas)[2].reachable);
  s.report_links(1, {s.line(2, kMega, kMega)});
  EXPECT_TRUE(links_of(s.state(), s.now, s.replicas)[2].reachable);
  EXPECT_FALSE(links_of(s.state(), s.now, s.replicas)[1].reachable);
}

TEST(Links, ARepeatedReportTellsNothingNew) {
  Swarm s(2);
  s.report_links(0, {s.line(1, kMega, kMega)});
  const LinkKey key{s.agent(0), s.agent(1)};
  const LinkRecord before = s.state().links.at(key);
  s.say(s.agents[0], Heartbeat{});
  s.wait(seconds(1));
  s.report_links(0, {s.line(1, 2 * kMega, kMega)});
  EXPECT_EQ(s.state().links.at(key), before);
}

// rep_1 of agt_1 says what it knows of its line to rep_2 of agt_2.
struct NotedLinks : testing::Test {
  NotedLinks() {
    for (const std::uint64_t n : {1, 2}) {
      ReplicaRecord replica;
      replica.id = ReplicaId(n), replica.agent = AgentId(n);
      state.replicas.put(replica.id, replica);
    }
  }
  void say(Instant now, const LinkEstimate& link) {
    Transaction tx(state, now);
    note_links(tx, ReplicaId(1), {link});
  }
  static LinkEstimate probe(double rate) {
    return {ReplicaId(2), milliseconds(20), rate, rate, true, PeerWay::kDirect};
  }
  static LinkEstimate traffic(double rate) {
    LinkEstimate link{ReplicaId(2), {}, 0, rate, true, PeerWay::kDirect};
    link.at_least = true;
    return link;
  }
  LinkRecord to_peer() const { return state.links.at({AgentId(1), AgentId(2)}); }
  LinkRecord from_peer() const { return state.links.at({AgentId(2), AgentId(1)}); }

  static constexpr Instant kStart{1'700'000'000'000'000'000};
  State state;
};

TEST_F(NotedLinks, ReachingAPeerRenewsNoRate) {
  say(kStart, probe(kMega));
  const Instant later = kStart + seconds(600);
  say(later, {ReplicaId(2), {}, 0, 0, true, PeerWay::kDirect});
  EXPECT_EQ(to_peer().bytes_per_s, kMega);
  EXPECT_EQ(to_peer().measured_at, kStart);
  EXPECT_EQ(to_peer().reached_at, later);
}

TEST_F(NotedLinks, SmallChangesAreNotWritten) {
  say(kStart, probe(kMega));
  const LinkRecord before = to_peer();
  say(kStart + seconds(1), probe(1.05 * kMega));
  EXPECT_EQ(to_peer(), before);
  say(kStart + seconds(2), probe(1.2 * kMega));
  EXPECT_EQ(to_peer().bytes_per_s, 1.2 * kMega);
}

TEST_F(NotedLinks, ASlowerProbeReplacesAFasterOne) {
  say(kStart, probe(kMega));
  say(kStart + seconds(1), probe(kMega / 10));
  EXPECT_EQ(from_peer().bytes_per_s, kMega / 10);
}

TEST_F(NotedLinks, SlowerTrafficReplacesNothingButAnOldRate) {
  say(kStart, probe(kMega));
  say(kStart + seconds(600), traffic(kMega / 2));
  EXPECT_EQ(from_peer().bytes_per_s, kMega);
  EXPECT_EQ(from_peer().measured_at, kStart);
  say(kStart + kLinkFresh + seconds(1), traffic(kMega / 2));
  EXPECT_EQ(from_peer().bytes_per_s, kMega / 2);
  EXPECT_TRUE(from_peer().at_least);
}

TEST_F(NotedLinks, TrafficAsQuickAsTheProbeConfirmsIt) {
  say(kStart, probe(kMega));
  say(kStart + seconds(600), traffic(kMega));
  EXPECT_EQ(from_peer().measured_at, kStart + seconds(600));
  EXPECT_FALSE(from_peer().at_least);
  say(kStart + seconds(601), traffic(2 * kMega));
  EXPECT_TRUE(from_peer().at_least) << "nobody knows how much more there is";
}

TEST(Links, EverybodyIsAskedToMeasureTheNextHalfOfTheCircle) {
  Swarm s(4);
  ASSERT_EQ(s.asked(1).size(), 2u);
  EXPECT_EQ(s.asked(1)[0].replica, s.replicas[2]);
  EXPECT_EQ(s.asked(1)[1].replica, s.replicas[3]);
  EXPECT_EQ(s.asked(1)[0].address, s.state().replicas.at(s.replicas[2]).address);
  s.report_links(1, {s.line(2, kMega, kMega), s.line(3, kMega, kMega)});
  EXPECT_THAT(peers_to_measure(s.state(), s.now, s.replicas[1]), IsEmpty());
  EXPECT_THAT(peers_to_measure(s.state(), s.now, s.replicas[3]), testing::SizeIs(1));
  const Instant later = s.now + kMeasureAgain + seconds(1);
  EXPECT_THAT(peers_to_measure(s.state(), later, s.replicas[1]), testing::SizeIs(2));
}

// Two that ask each other at once would find each other busy, again and again in short rounds.
TEST(Links, OfTwoThatFaceEachOtherOneAsks) {
  Swarm s(2);
  EXPECT_THAT(s.asked(0), testing::SizeIs(1));
  EXPECT_THAT(s.asked(1), IsEmpty());
  s.report_links(0, {{s.replicas[1], {}, 0, 0, false}});
  EXPECT_THAT(peers_to_measure(s.state(), s.now, s.replicas[0]), IsEmpty());
  EXPECT_THAT(peers_to_measure(s.state(), s.now, s.replicas[1]), testing::SizeIs(1));
}

TEST(Links, WhatAReduceLeftHalfMeasuredIsMeasuredAgain) {
  Swarm s(2);
  s.report_links(1, {{s.replicas[0], milliseconds(20), 0, kMega, true}});
  EXPECT_THAT(peers_to_measure(s.state(), s.now, s.replicas[0]), testing::SizeIs(1));
}

TEST(Links, TrafficAloneIsNoMeasurement) {
  Swarm s(2);
  s.report_links(1, {{s.replicas[0], {}, kMega, kMega, true}});
  EXPECT_THAT(peers_to_measure(s.state(), s.now, s.replicas[0]), testing::SizeIs(1));
  s.report_links(0, {s.line(1, kMega, kMega)});
  EXPECT_THAT(peers_to_measure(s.state(), s.now, s.replicas[0]), IsEmpty());
}

TEST(Links, RoundsOfOneStepAreTooShortToMeasureIn) {
  JobSpec spec = small_job();
  spec.sync = default_spec(SyncAlgorithm::kDdp).sync;
  Swarm s(2, spec);
  EXPECT_THAT(s.asked(0), IsEmpty());
}

}  // namespace
}  // namespace shoal::coordinator
