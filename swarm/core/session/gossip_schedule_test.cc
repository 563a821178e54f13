#include "swarm/core/session/gossip_schedule.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

struct Telling {
  Telling() {
    for (const ReplicaId peer : {a, b}) schedule.connected(peer);
    tell();
  }
  std::vector<ReplicaId> tell() {
    std::vector<ReplicaId> told;
    if (!schedule.due(now)) return told;
    SessionActions out;
    schedule.tell(now, {1, 0, {}}, out);
    for (const SessionAction& action : out) told.push_back(std::get<SendGossip>(action).to);
    return told;
  }
  const ReplicaId a{1}, b{2};
  Instant now{0};
  GossipSchedule schedule;
};

using Peers = std::vector<ReplicaId>;

TEST(GossipSchedule, OwnNewsGoOutAtOnce) {
  Telling t;
  EXPECT_FALSE(t.schedule.due(t.now));
  t.schedule.own_news();
  EXPECT_EQ(t.schedule.state(), GossipState::kUrgent);
  EXPECT_EQ(t.tell(), (Peers{t.a, t.b}));
  EXPECT_FALSE(t.schedule.due(t.now));
}

TEST(GossipSchedule, NewsOfOthersWaitForMore) {
  Telling t;
  t.schedule.heard_news(t.now);
  EXPECT_TRUE(t.tell().empty());
  EXPECT_EQ(t.schedule.next_deadline(), t.now + kGossipDelay);
  t.schedule.heard_news(t.now + milliseconds(20));
  EXPECT_EQ(t.schedule.next_deadline(), t.now + kGossipDelay) << "the first sets the time";
  t.now = t.now + kGossipDelay;
  EXPECT_EQ(t.tell(), (Peers{t.a, t.b}));
  EXPECT_FALSE(t.schedule.next_deadline());
}

TEST(GossipSchedule, NobodyIsToldWhatHeKnows) {
  Telling t;
  t.schedule.own_news();
  t.schedule.knows(t.a);
  EXPECT_EQ(t.tell(), Peers{t.b});
}

TEST(GossipSchedule, ANewStreamIsToldAtOnceAndOthersStillWait) {
  Telling t;
  t.schedule.heard_news(t.now);
  t.schedule.ended(t.b);
  t.schedule.connected(t.b);
  EXPECT_EQ(t.tell(), Peers{t.b});
  EXPECT_EQ(t.schedule.state(), GossipState::kPending);
  t.now = t.now + kGossipDelay;
  EXPECT_EQ(t.tell(), Peers{t.a});
}

TEST(GossipSchedule, TheTable) {
  using enum GossipState;
  EXPECT_TRUE(allowed(kQuiet, kPending));
  EXPECT_TRUE(allowed(kPending, kUrgent));
  EXPECT_TRUE(allowed(kPending, kQuiet));
  EXPECT_FALSE(allowed(kUrgent, kPending)) << "urgent news never wait";
  EXPECT_FALSE(allowed(kQuiet, kQuiet));
}

}  // namespace
}  // namespace shoal::swarm
