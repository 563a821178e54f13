#include "swarm/core/session/draws.h"

#include <gtest/gtest.h>

namespace shoal::swarm {
namespace {

const ReplicaId kSelf(1);
const RoundKey kHeld{JobId(1), 0, 0};

struct Router {
  void open(std::int64_t from, std::int64_t to, std::int64_t sequences) {
    const OpenRound round{.key = {JobId(1), 0, 1},
                          .from_step = Steps(from),
                          .to_step = Steps(to),
                          .leases = {{0, sequences}}};
    draws.open(round);
    barrier.open(round);
    progress.begin(from);
  }
  std::vector<Microbatch> draw_all() {
    std::vector<Microbatch> drawn;
    while (const auto draw = draws.next()) drawn.push_back(draw->microbatch);
    return drawn;
  }
  void answer(const Microbatch& m) {
    draws.came_back({.id = 1, .microbatch = m, .loss_sum = 2, .tokens = Tokens(16)}, out);
  }

  SessionOptions options{.self = kSelf, .microbatch = 2, .context = 8};
  StepBooks books;
  StepBarrier barrier{PipelineSchedule::kFlush, 0, 0};
  RoundProgress progress{kSelf};
  Draws draws{options, books, barrier, progress};
  SessionActions out;
};

TEST(Draws, TheLeaseIsSpreadOverTheSteps) {
  Router r;
  EXPECT_TRUE(r.draw_all().empty()) << "no round";
  r.open(0, 4, 24);
  const auto drawn = r.draw_all();
  ASSERT_EQ(drawn.size(), 3u);
  EXPECT_EQ(drawn[2], (Microbatch{1, 0, kSelf, 2, PassKind::kTrain}));
  EXPECT_TRUE(r.draws.done_with(0));
  r.barrier.enter(1);
  EXPECT_EQ(r.draw_all().size(), 3u);
}

TEST(Draws, OneThatIsLateDrawsForTheStepsItIsBehind) {
  Router r;
  r.open(0, 4, 24);
  r.open(4, 8, 32);  // it is in step 0 yet: 8 steps to come
  EXPECT_EQ(r.draw_all().size(), 2u);
}

TEST(Draws, AtLeastOneAStepWhereAnythingIsLeased) {
  Router some, none;
  some.open(0, 4, 2);
  EXPECT_EQ(some.draw_all().size(), 1u);
  none.open(0, 4, 0);
  EXPECT_TRUE(none.draw_all().empty());
  EXPECT_TRUE(none.draws.done_with(0));
}

TEST(Draws, ClosingLeavesOutWhatWasNotBegun) {
  Router r;
  r.open(0, 4, 24);
  r.draws.next();
  r.barrier.close();
  EXPECT_TRUE(r.draws.ends_with(0));
  EXPECT_EQ(r.draw_all().size(), 2u) << "the step that it began";
  Router fresh;
  fresh.open(0, 4, 24);
  fresh.barrier.close();
  EXPECT_TRUE(fresh.draw_all().empty());
}

TEST(Draws, AnEvaluationComesFirstAndHoldsUpTheStep) {
  Router r;
  r.open(0, 4, 24);
  r.draws.evaluate(kHeld, {.slice = 1, .slices = 2, .batches = 4}, 2, r.out);
  EXPECT_TRUE(r.out.empty());
  const auto drawn = r.draw_all();
  ASSERT_EQ(drawn.size(), 4u + 3u);
  std::vector<std::int32_t> passes;
  for (int i = 0; i < 4; ++i) passes.push_back(drawn[static_cast<std::size_t>(i)].index);
  EXPECT_EQ(passes, (std::vector<std::int32_t>{2, 3, 6, 7}));
  EXPECT_FALSE(r.draws.done_with(0));
  for (int i = 0; i < 4; ++i) r.answer(drawn[static_cast<std::size_t>(i)]);
  ASSERT_EQ(r.out.size(), 1u);
  EXPECT_EQ(std::get<EvaluationDone>(r.out[0]).loss_sum, 8);
  EXPECT_TRUE(r.draws.done_with(0));
}

TEST(Draws, AnEvaluationOfOtherParametersIsVoid) {
  Router r;
  r.open(0, 4, 24);
  r.barrier.enter(1);
  r.draws.evaluate(kHeld, {.slice = 0, .slices = 1, .batches = 4}, 1, r.out);
  ASSERT_EQ(r.out.size(), 1u);
  EXPECT_EQ(std::get<EvaluationDone>(r.out[0]).tokens, Tokens(0));
}

TEST(Draws, ASampleWaitsForTheParametersToRestAndHoldsUpTheStep) {
  Router r;
  r.open(0, 4, 24);
  r.barrier.enter(1);
  r.draws.ask(77);
  EXPECT_EQ(r.draw_all().size(), 3u) << "they have moved";
  EXPECT_TRUE(r.draws.done_with(1));
  r.barrier.commit(1, 4);
  r.progress.next_round(1);
  r.barrier.enter(4);
  const auto draw = r.draws.next();
  ASSERT_TRUE(draw);
  EXPECT_EQ(draw->asked, 77u);
  EXPECT_EQ(draw->microbatch.kind, PassKind::kLogits);
}

TEST(Draws, TheBoundaryReportsWhatCameBack) {
  Router r;
  r.open(0, 4, 24);
  for (const Microbatch& m : r.draw_all()) r.answer(m);
  const ReachBoundary reached = r.draws.boundary();
  EXPECT_EQ(reached.drawn, 3);
  EXPECT_EQ(reached.drawn_tokens, Tokens(48));
  EXPECT_EQ(reached.loss_sum, 6);
  EXPECT_EQ(r.draws.boundary().drawn, 0) << "once";
}

TEST(Draws, ASkippedStepIsDone) {
  Router r;
  r.open(0, 4, 24);
  r.draws.evaluate(kHeld, {.slice = 0, .slices = 1, .batches = 1}, 1, r.out);
  r.draws.skip(0, r.out);
  EXPECT_EQ(std::get<EvaluationDone>(r.out.at(0)).tokens, Tokens(0));
  EXPECT_TRUE(r.draw_all().empty());
  EXPECT_TRUE(r.draws.done_with(0));
}

}  // namespace
}  // namespace shoal::swarm
