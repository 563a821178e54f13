#include "swarm/core/session/peers.h"

#include <gtest/gtest.h>

#include "swarm/core/session/stage_session_test_util.h"

namespace shoal::swarm {
namespace {

struct Neighborhood {
  explicit Neighborhood(std::uint64_t self)
      : options{.self = id(self), .stage = static_cast<StageIndex>(self / 10), .stages = 3},
        peers(options) {}
  void take(const PipelineView& view) { peers.take(view, Roster(view, options), out); }
  std::vector<ReplicaId> dialed() const {
    std::vector<ReplicaId> ids;
    for (const PipelineMember& m : std::get<Dial>(out.back()).peers) ids.push_back(m.replica);
    return ids;
  }

  SessionOptions options;
  Peers peers;
  SessionActions out;
};

TEST(Peers, ANeighborBelowIsWiredOnceItIsNamedAndHasAStream) {
  Neighborhood n(11);
  n.peers.connected(id(21));
  EXPECT_EQ(n.peers.state(id(21)), PeerState::kStranger);
  EXPECT_EQ(n.peers.wiring().size(), 0u);
  n.take(full_view());
  EXPECT_EQ(n.peers.state(id(21)), PeerState::kWired);
  EXPECT_EQ(n.peers.state(id(22)), PeerState::kExpected);
  n.peers.connected(id(22));
  EXPECT_EQ(n.peers.wiring().size(), 2u);
  n.peers.ended(id(22));
  EXPECT_EQ(n.peers.state(id(22)), PeerState::kExpected);
  n.take(without(full_view(), 21, 2));
  EXPECT_EQ(n.peers.state(id(21)), PeerState::kStranger);
  EXPECT_EQ(n.peers.wiring().size(), 0u);
  n.peers.ended(id(21));
  EXPECT_EQ(n.peers.state(id(21)), PeerState::kGone);
}

TEST(Peers, AReplicaIsAsSlowAsItsLine) {
  Neighborhood n(11);
  PipelineView view = full_view();
  for (PipelineMember& m : view.members) {
    m.speed = 1;
    if (m.replica == id(22)) m.line_time = milliseconds(40);
  }
  n.take(view);
  for (const std::uint64_t next : {21, 22}) n.peers.connected(id(next));
  n.peers.measured(id(21), milliseconds(10));
  EXPECT_EQ(n.peers.wiring().service_per_work(id(22)), milliseconds(40))
      << "before it has answered";
  n.peers.measured(id(22), milliseconds(10));
  EXPECT_EQ(n.peers.wiring().service_per_work(id(22)), milliseconds(40));
  n.peers.measured(id(22), milliseconds(90));
  EXPECT_GT(n.peers.wiring().service_per_work(id(22)), milliseconds(40))
      << "now it computes longer";
}

TEST(Peers, OnlyTheStageBeforeMaySendHere) {
  Neighborhood n(11);
  for (const std::uint64_t from : {1, 21, 99}) n.peers.connected(id(from));
  EXPECT_FALSE(n.peers.may_send_here(id(1))) << "no view yet";
  n.take(full_view());
  EXPECT_EQ(n.peers.state(id(1)), PeerState::kNeighbor);
  EXPECT_TRUE(n.peers.may_send_here(id(1)));
  EXPECT_FALSE(n.peers.may_send_here(id(2))) << "no stream";
  EXPECT_FALSE(n.peers.may_send_here(id(21)));
  EXPECT_FALSE(n.peers.may_send_here(id(99)));
}

TEST(Peers, WhoIsNotInTheViewItselfSendsNobodyAnything) {
  Neighborhood n(11);
  n.take(full_view());
  n.peers.connected(id(21));
  n.take(without(full_view(), 11, 2));
  EXPECT_EQ(n.peers.state(id(21)), PeerState::kNeighbor);
  EXPECT_EQ(n.peers.wiring().size(), 0u);
  EXPECT_TRUE(n.dialed().empty());
  n.take(full_view(3));
  EXPECT_EQ(n.peers.state(id(21)), PeerState::kWired);
}

TEST(Peers, WhatWasMeasuredOutlivesAStream) {
  Neighborhood n(11);
  n.take(full_view());
  n.peers.connected(id(21));
  n.peers.measured(id(21), seconds(2));
  n.peers.ended(id(21));
  n.peers.connected(id(21));
  EXPECT_EQ(n.peers.wiring().service_per_work(id(21)), seconds(2));
}

TEST(Peers, SpeedsTurnOneMeasurementIntoEstimatesOfTheOthers) {
  Neighborhood n(11);
  PipelineView view = full_view();
  view.members[4].speed = 4;  // 21
  view.members[5].speed = 1;
  n.take(view);
  n.peers.connected(id(21));
  n.peers.connected(id(22));
  n.peers.measured(id(21), seconds(1));
  EXPECT_EQ(n.peers.wiring().service_per_work(id(22)), seconds(4));
}

TEST(Peers, APauseEndsByTimeOrWithTheStream) {
  Neighborhood n(11);
  n.take(full_view());
  n.peers.connected(id(21));
  const Instant now{0};
  n.peers.pause(now, id(21));
  EXPECT_EQ(n.peers.wiring().eligible(), 0u);
  EXPECT_EQ(n.peers.next_deadline(), now + kRefusalPause);
  n.peers.unpause(now + milliseconds(1));
  EXPECT_EQ(n.peers.wiring().eligible(), 0u);
  n.peers.unpause(now + kRefusalPause);
  EXPECT_EQ(n.peers.wiring().eligible(), 1u);
  n.peers.pause(now, id(21));
  n.peers.ended(id(21));
  EXPECT_FALSE(n.peers.next_deadline());
}

TEST(Peers, DialsTheNextStageAndRoutersWithALargerIdAndSaysItOnce) {
  Neighborhood n(1);
  n.take(full_view());
  EXPECT_EQ(n.dialed(), (std::vector<ReplicaId>{id(2), id(11), id(12)}));
  n.take(full_view(2));
  EXPECT_EQ(n.out.size(), 1u);
  Neighborhood second(2);
  second.take(full_view());
  EXPECT_EQ(second.dialed(), (std::vector<ReplicaId>{id(11), id(12)}));
}

TEST(Peers, TheWindowIsSharedByTheRouters) {
  Neighborhood n(1);
  n.take(full_view());
  EXPECT_EQ(n.peers.window(), 24);  // 8 per replica of the view
  PipelineView view = full_view(2);
  view.members[0].speed = 3, view.members[1].speed = 1;
  n.take(view);
  EXPECT_EQ(n.peers.window(), 36);
}

TEST(Peers, TheTable) {
  using enum PeerState;
  EXPECT_FALSE(allowed(kGone, kWired)) << "named and connected are two events";
  EXPECT_FALSE(allowed(kGone, kNeighbor));
  EXPECT_FALSE(allowed(kExpected, kStranger));
  EXPECT_FALSE(allowed(kStranger, kExpected));
  EXPECT_FALSE(allowed(kWired, kGone));
  EXPECT_FALSE(allowed(kNeighbor, kGone));
  EXPECT_FALSE(allowed(kWired, kWired));
  Neighborhood n(11);
  n.peers.connected(id(21));
  EXPECT_DEATH(n.peers.connected(id(21)), "peer: stranger -> stranger");
}

}  // namespace
}  // namespace shoal::swarm
