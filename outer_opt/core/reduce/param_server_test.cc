// A butterfly with reducers: who sends what, what a reducer holds, and what its loss and the loss
// of others do. The sweep of kills is in make_session_test.cc.
#include "outer_opt/core/reduce/session_test_util.h"

namespace shoal::outer_opt {
namespace {

// Three members that train and two reducers, with these shares.
ReducePlan five(CodecKind codec, std::vector<double> shares) {
  return with_reducers(make_plan(codec, 200, {3, 1, 2, 0, 0}, std::move(shares)), 2);
}

TEST(ParamServer, AveragesLikeAButterfly) {
  const ReducePlan plan = five(CodecKind::kFp32, {1, 1, 1, 2, 5});
  const auto inputs = random_inputs(plan, 3);
  SessionSwarm swarm(plan, 8, inputs);
  Prng prng(1);
  swarm.run(prng);
  expect_all_done_and_equal(swarm);
  const ReducePlan alone = make_plan(CodecKind::kFp32, 200, {3, 1, 2});
  SessionSwarm butterfly(alone, 8, {inputs[0], inputs[1], inputs[2]});
  butterfly.run(prng);
  EXPECT_EQ(swarm.averages[0], butterfly.averages[0]);
  const ReduceMember& reducer = plan.members[4];
  ASSERT_EQ(swarm.averages[4].size(), static_cast<std::size_t>(reducer.part_count));
  for (std::int64_t i = 0; i < reducer.part_count; ++i) {
    EXPECT_EQ(swarm.averages[4][i], swarm.averages[0][reducer.part_first + i]);
  }
}

TEST(ParamServer, SameBitsInAnyOrder) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kInt8, CodecKind::kE3m0}) {
    expect_same_bits_in_any_order(five(codec, {0, 0, 0, 1, 3}), 8);
    expect_same_bits_in_any_order(five(codec, {1, 1, 0, 1, 3}), 8);
  }
}

TEST(ParamServer, NothingIsSentToAReducerButContributionsToItsPart) {
  const ReducePlan plan = five(CodecKind::kInt8, {1, 1, 1, 2, 2});
  SessionSwarm swarm(plan, 8, random_inputs(plan, 3));
  const ReduceSession& trainer = *swarm.sessions[0];
  EXPECT_TRUE(trainer.dials(0, 4));
  EXPECT_FALSE(trainer.dials(4, 0));
  EXPECT_FALSE(trainer.dials(3, 4));
  EXPECT_FALSE(trainer.sent_all(4, FrameKind::kContribution));
  EXPECT_TRUE(trainer.sent_all(4, FrameKind::kAverage));
  EXPECT_TRUE(swarm.sessions[4]->received_all(0, FrameKind::kAverage));
  EXPECT_TRUE(swarm.sessions[4]->received_all(3, FrameKind::kContribution));
}

TEST(ParamServer, WhoOwnsNoPartIsSpared) {
  const ReducePlan plan = five(CodecKind::kFp32, {0, 0, 0, 1, 1});
  SessionSwarm swarm(plan, 8, random_inputs(plan, 3));
  Prng prng(4);
  swarm.run(prng, 20);
  swarm.kill(1);
  swarm.run(prng);
  expect_all_done_and_equal(swarm);
  EXPECT_EQ(swarm.sessions[3]->excluded(), std::vector{plan.members[1].replica});
  EXPECT_TRUE(swarm.sessions[0]->excluded().empty());
}

TEST(ParamServer, ALostReducerEndsTheAttempt) {
  const ReducePlan plan = five(CodecKind::kFp32, {0, 0, 0, 1, 1});
  SessionSwarm swarm(plan, 8, random_inputs(plan, 3));
  Prng prng(4);
  swarm.run(prng, 20);
  swarm.kill(4);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(swarm.sessions[i]->state(), SessionState::kBroken);
    EXPECT_EQ(swarm.sessions[i]->failure().peer, 4);
  }
  EXPECT_EQ(swarm.sessions[3]->state(), SessionState::kRunning) << "it misses nobody's average";
}

TEST(ParamServer, RefusesAReducerElsewhereOrWithAWeight) {
  ReducePlan plan = five(CodecKind::kFp32, {1, 1, 1, 1, 1});
  std::vector<float> input(200), average(200);
  const auto refused = [&](const ReducePlan& bad) {
    const auto session = make_session(bad, ReplicaId(10), 8, {input, {}}, average);
    return session.ok() ? "" : session.error().field;
  };
  EXPECT_EQ(refused(plan), "");
  plan.members[4].weight = 1;
  EXPECT_EQ(refused(plan), "members.reducer");
  plan.members[4].weight = 0;
  plan.topology = Topology::kButterfly;
  EXPECT_EQ(refused(plan), "members.reducer");
}

TEST(ParamServer, AReducerHasRoomForItsPartOnly) {
  const ReducePlan plan = five(CodecKind::kFp32, {1, 1, 1, 1, 1});
  std::vector<float> whole(200), part(40);
  const auto too_large = make_session(plan, ReplicaId(14), 8, {}, whole);
  ASSERT_FALSE(too_large.ok());
  EXPECT_EQ(too_large.error().field, "value_count");
  EXPECT_TRUE(make_session(plan, ReplicaId(14), 8, {}, part).ok());
}

}  // namespace
}  // namespace shoal::outer_opt
