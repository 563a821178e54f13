#include "swarm/core/session/step_words.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

struct Telling {
  Telling() {
    for (const ReplicaId peer : {a, b}) words.connected(peer);
    tell();
  }
  std::vector<ReplicaId> tell() {
    std::vector<ReplicaId> told;
    if (!words.due(now)) return told;
    SessionActions out;
    words.tell(now, {1, 0, {}}, out);
    for (const SessionAction& action : out) told.push_back(std::get<SendWord>(action).to);
    return told;
  }
  const ReplicaId a{1}, b{2};
  Instant now{0};
  StepWords words;
};

using Peers = std::vector<ReplicaId>;

TEST(StepWords, OwnNewsGoOutAtOnce) {
  Telling t;
  EXPECT_FALSE(t.words.due(t.now));
  t.words.own_news();
  EXPECT_EQ(t.words.state(), WordState::kUrgent);
  EXPECT_EQ(t.tell(), (Peers{t.a, t.b}));
  EXPECT_FALSE(t.words.due(t.now));
}

TEST(StepWords, NewsOfOthersWaitForMore) {
  Telling t;
  t.words.heard_news(t.now);
  EXPECT_TRUE(t.tell().empty());
  EXPECT_EQ(t.words.next_deadline(), t.now + kWordDelay);
  t.words.heard_news(t.now + milliseconds(20));
  EXPECT_EQ(t.words.next_deadline(), t.now + kWordDelay) << "the first sets the time";
  t.now = t.now + kWordDelay;
  EXPECT_EQ(t.tell(), (Peers{t.a, t.b}));
  EXPECT_FALSE(t.words.next_deadline());
}

TEST(StepWords, NobodyIsToldWhatHeKnows) {
  Telling t;
  t.words.own_news();
  t.words.knows(t.a);
  EXPECT_EQ(t.tell(), Peers{t.b});
}

TEST(StepWords, ANewStreamIsToldAtOnceAndOthersStillWait) {
  Telling t;
  t.words.heard_news(t.now);
  t.words.ended(t.b);
  t.words.connected(t.b);
  EXPECT_EQ(t.tell(), Peers{t.b});
  EXPECT_EQ(t.words.state(), WordState::kPending);
  t.now = t.now + kWordDelay;
  EXPECT_EQ(t.tell(), Peers{t.a});
}

TEST(StepWords, TheTable) {
  using enum WordState;
  EXPECT_TRUE(allowed(kQuiet, kPending));
  EXPECT_TRUE(allowed(kPending, kUrgent));
  EXPECT_TRUE(allowed(kPending, kQuiet));
  EXPECT_FALSE(allowed(kUrgent, kPending)) << "urgent news never wait";
  EXPECT_FALSE(allowed(kQuiet, kQuiet));
}

}  // namespace
}  // namespace shoal::swarm
