// Which members may wait, call and answer at a relay, and what its quotas refuse.
#include "wire/relay/core/switchboard.h"

#include <gtest/gtest.h>

namespace shoal::wire::relay {
namespace {

constexpr Instant kNow = from_unix_ms(1'000'000);
constexpr CallId kCall{1, 2};

Member replica(std::uint64_t n, std::uint64_t agent = 0, std::uint64_t job = 1) {
  return {AgentId(agent == 0 ? n : agent), JobId(job), ReplicaId(n)};
}

const Refuse* refusal(const Effects& effects) {
  for (const Effect& effect : effects) {
    if (const auto* refuse = std::get_if<Refuse>(&effect)) return refuse;
  }
  return nullptr;
}

TEST(Switchboard, ACallIsToldAndItsAnswerJoins) {
  Switchboard board({});
  EXPECT_EQ(board.wait(1, replica(7), kNow), Effects{Grant{1}});
  EXPECT_EQ(board.call(2, replica(8), ReplicaId(7), kCall, kNow), (Effects{Tell{1, kCall}}));
  EXPECT_EQ(board.answer(3, replica(7), kCall), (Effects{Join{2, 3}}));
  EXPECT_EQ(board.joined(), 1u);
  EXPECT_EQ(board.calls(), 0u);
  EXPECT_EQ(board.waiting(), 1u);  // for the next call
  EXPECT_EQ(board.gone(3), Effects{Close{2}});
  EXPECT_EQ(board.joined(), 0u);
  EXPECT_EQ(board.gone(2), Effects{});
}

TEST(Switchboard, OnlyTheOneThatWasCalledAnswers) {
  Switchboard board({});
  board.wait(1, replica(7), kNow);
  board.wait(2, replica(9), kNow);
  board.call(3, replica(8), ReplicaId(7), kCall, kNow);
  ASSERT_TRUE(refusal(board.answer(4, replica(9), kCall)));
  ASSERT_TRUE(refusal(board.answer(4, replica(7), {1, 3})));
  ASSERT_TRUE(refusal(board.answer(4, replica(7, 99), kCall)));
  EXPECT_EQ(board.answer(4, replica(7), kCall), (Effects{Join{3, 4}}));
  EXPECT_TRUE(refusal(board.answer(5, replica(7), kCall)));  // a call is answered once
}

TEST(Switchboard, AStrangerToTheJobCallsNobody) {
  Switchboard board({});
  board.wait(1, replica(7), kNow);
  const Effects foreign = board.call(2, replica(8, 0, 2), ReplicaId(7), kCall, kNow);
  ASSERT_TRUE(refusal(foreign));
  EXPECT_EQ(refusal(foreign)->why.code, Code::kNotFound);
  EXPECT_EQ(refusal(board.call(2, replica(8), ReplicaId(6), kCall, kNow))->why.code,
            Code::kNotFound);
  EXPECT_EQ(board.calls(), 0u);
}

TEST(Switchboard, ANewConnectionOfOneReplicaTakesThePlaceOfTheOld) {
  Switchboard board({});
  board.wait(1, replica(7), kNow);
  const Effects again = board.wait(2, replica(7), kNow);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(std::get<Refuse>(again[0]).to, 1u);
  EXPECT_EQ(std::get<Refuse>(again[0]).why.code, Code::kCancelled);
  EXPECT_EQ(std::get<Grant>(again[1]).to, 2u);
  EXPECT_EQ(board.call(3, replica(8), ReplicaId(7), kCall, kNow), (Effects{Tell{2, kCall}}));
  const Effects stolen = board.wait(4, replica(7, 99), kNow);
  ASSERT_TRUE(refusal(stolen));
  EXPECT_EQ(refusal(stolen)->to, 4u);
  EXPECT_EQ(refusal(stolen)->why.code, Code::kPermissionDenied);
}

TEST(Switchboard, QuotasOfOneAgentLeaveRoomForOthers) {
  Switchboard board({.waiting_per_agent_max = 2, .calls_per_agent_max = 2});
  EXPECT_FALSE(refusal(board.wait(1, replica(1, 50), kNow)));
  EXPECT_FALSE(refusal(board.wait(2, replica(2, 50), kNow)));
  const Effects third = board.wait(3, replica(3, 50), kNow);
  ASSERT_TRUE(refusal(third));
  EXPECT_EQ(refusal(third)->why.field, "waiting_per_agent_max");
  EXPECT_FALSE(refusal(board.wait(4, replica(4, 51), kNow)));

  EXPECT_FALSE(refusal(board.call(10, replica(8, 52), ReplicaId(1), {1, 1}, kNow)));
  EXPECT_FALSE(refusal(board.call(11, replica(8, 52), ReplicaId(2), {1, 2}, kNow)));
  EXPECT_EQ(refusal(board.call(12, replica(8, 52), ReplicaId(4), {1, 3}, kNow))->why.field,
            "calls_per_agent_max");
  EXPECT_FALSE(refusal(board.call(13, replica(9, 53), ReplicaId(4), {1, 4}, kNow)));
  EXPECT_EQ(refusal(board.call(14, replica(9, 53), ReplicaId(4), {1, 4}, kNow))->why.code,
            Code::kConflict);
}

TEST(Switchboard, JoinedConnectionsCountForTheCaller) {
  Switchboard board({.joined_per_agent_max = 1});
  board.wait(1, replica(7), kNow);
  board.call(2, replica(8), ReplicaId(7), {1, 1}, kNow);
  EXPECT_EQ(refusal(board.call(3, replica(8), ReplicaId(7), {1, 2}, kNow))->why.field,
            "joined_per_agent_max");
  board.answer(4, replica(7), {1, 1});
  EXPECT_EQ(refusal(board.call(5, replica(8), ReplicaId(7), {1, 3}, kNow))->why.field,
            "joined_per_agent_max");
  EXPECT_FALSE(refusal(board.call(6, replica(9), ReplicaId(7), {1, 4}, kNow)));
  board.gone(2);
  EXPECT_FALSE(refusal(board.call(7, replica(8), ReplicaId(7), {1, 5}, kNow)));
}

TEST(Switchboard, TotalsHaveABoundToo) {
  Switchboard board({.waiting_max = 1, .calls_max = 1});
  board.wait(1, replica(7), kNow);
  EXPECT_EQ(refusal(board.wait(2, replica(8), kNow))->why.field, "waiting_max");
  board.call(3, replica(9), ReplicaId(7), {1, 1}, kNow);
  EXPECT_EQ(refusal(board.call(4, replica(10), ReplicaId(7), {1, 2}, kNow))->why.field,
            "calls_max");
  Switchboard narrow({.joined_max = 1});
  narrow.wait(1, replica(7), kNow);
  narrow.call(2, replica(8), ReplicaId(7), {1, 1}, kNow);
  EXPECT_EQ(refusal(narrow.call(3, replica(9), ReplicaId(7), {1, 2}, kNow))->why.field,
            "joined_max");
}

TEST(Switchboard, SilenceAndUnansweredCallsEnd) {
  Switchboard board({.answer_limit = seconds(5), .silence_limit = seconds(10)});
  board.wait(1, replica(7), kNow);
  board.call(2, replica(8), ReplicaId(7), kCall, kNow);
  EXPECT_EQ(board.tick(kNow + seconds(4)), Effects{});
  const Effects late = board.tick(kNow + seconds(5));
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(std::get<Refuse>(late[0]).to, 2u);
  EXPECT_EQ(std::get<Refuse>(late[0]).why.code, Code::kDeadlineExceeded);
  board.heard(1, kNow + seconds(6));
  EXPECT_EQ(board.tick(kNow + seconds(15)), Effects{});
  const Effects silent = board.tick(kNow + seconds(16));
  ASSERT_EQ(silent.size(), 1u);
  EXPECT_EQ(std::get<Refuse>(silent[0]).to, 1u);
  EXPECT_EQ(board.waiting(), 0u);
}

TEST(Switchboard, ACallerThatIsGoneCannotBeAnswered) {
  Switchboard board({});
  board.wait(1, replica(7), kNow);
  board.call(2, replica(8), ReplicaId(7), kCall, kNow);
  EXPECT_EQ(board.gone(2), Effects{});
  EXPECT_TRUE(refusal(board.answer(3, replica(7), kCall)));
  EXPECT_EQ(board.gone(1), Effects{});
  EXPECT_TRUE(refusal(board.call(4, replica(8), ReplicaId(7), {3, 3}, kNow)));
}

TEST(Limits, EachFieldIsChecked) {
  EXPECT_TRUE(check_limits({}).ok());
  EXPECT_EQ(check_limits({.joined_max = 0}).error().field, "joined_max");
  EXPECT_EQ(check_limits({.answer_limit = Duration()}).error().field, "answer_limit");
}

}  // namespace
}  // namespace shoal::wire::relay
