#include "coordinator/service/otlp/spans.h"

#include <gmock/gmock.h>

namespace shoal::coordinator::otlp {
namespace {

using ::testing::ElementsAre;

Instant at(std::int64_t s) { return Instant{} + seconds(s); }

RoundRecord round_in(RoundState state) {
  RoundRecord round{.key = {JobId(1), 2, 3}, .state = state};
  round.opened_at = at(10);
  round.reduces.resize(2);
  if (state == RoundState::kOpen) return round;
  round.frozen_at = at(20);
  round.reduces[0].attempt_started_at = at(21);
  round.reduces[1].attempt_started_at = at(22);
  if (state == RoundState::kCommitted) round.committed_at = at(40);
  return round;
}

std::vector<std::string> names(const std::vector<Span>& spans) {
  std::vector<std::string> all;
  for (const Span& span : spans)
    all.push_back(span.name + " " + std::to_string(span.begin.ns / 1'000'000'000) + "-" +
                  std::to_string(span.end.ns / 1'000'000'000));
  return all;
}

TEST(Spans, ACommittedRoundIsOneTrace) {
  SpanMaker maker("c");
  EXPECT_TRUE(maker.from(at(10), round_in(RoundState::kOpen)).empty());
  EXPECT_TRUE(maker.from(at(22), round_in(RoundState::kReducing)).empty());
  EXPECT_TRUE(maker.from(at(30), round_in(RoundState::kVoting)).empty());
  EXPECT_TRUE(maker.from(at(31), round_in(RoundState::kVoting)).empty());
  const auto spans = maker.from(at(41), round_in(RoundState::kCommitted));
  EXPECT_THAT(names(spans), ElementsAre("round 10-40", "train 10-20", "reduce 21-30",
                                        "reduce 22-30", "vote 30-40"));
  for (const Span& span : spans) {
    EXPECT_EQ(span.trace, spans[0].trace);
    EXPECT_EQ(span.parent, span.name == "round" ? 0 : spans[0].id);
    EXPECT_FALSE(span.error);
  }
  EXPECT_NE(spans[2].id, spans[3].id);
  EXPECT_TRUE(maker.from(at(50), round_in(RoundState::kCommitted)).empty()) << "its evaluation";
}

TEST(Spans, AVoteThatIsSeenLateEndsWithItsRound) {
  SpanMaker maker("c");
  (void)maker.from(at(43), round_in(RoundState::kVoting));
  EXPECT_THAT(
      names(maker.from(at(44), round_in(RoundState::kCommitted))),
      ElementsAre("round 10-40", "train 10-20", "reduce 21-40", "reduce 22-40", "vote 40-40"));
}

TEST(Spans, AnAbortIsAnErrorAndTheNextAttemptHasAVoteOfItsOwn) {
  SpanMaker maker("c");
  (void)maker.from(at(30), round_in(RoundState::kVoting));
  (void)maker.from(at(31), round_in(RoundState::kFrozen));
  (void)maker.from(at(35), round_in(RoundState::kVoting));
  const auto spans = maker.from(at(45), round_in(RoundState::kAborted));
  ASSERT_FALSE(spans.empty());
  EXPECT_TRUE(spans[0].error);
  EXPECT_THAT(names(spans), ElementsAre("round 10-45", "train 10-20", "reduce 21-35",
                                        "reduce 22-35", "vote 35-45"));
}

TEST(Spans, ACheckpointIsBelowItsRoundAndTracesOfClustersDiffer) {
  SpanMaker maker("c");
  CheckpointRecord checkpoint{.id = CheckpointId(4), .key = {JobId(1), 2, 3}};
  checkpoint.created_at = at(40);
  EXPECT_TRUE(maker.from(at(40), checkpoint).empty());
  checkpoint.state = CheckpointState::kFailed;
  checkpoint.detail = "no room";
  checkpoint.updated_at = at(50);
  const auto spans = maker.from(at(50), checkpoint);
  ASSERT_THAT(names(spans), ElementsAre("checkpoint 40-50"));
  EXPECT_EQ(spans[0].error, "no room");
  (void)maker.from(at(10), round_in(RoundState::kOpen));
  const auto round = maker.from(at(41), round_in(RoundState::kCommitted));
  EXPECT_EQ(spans[0].trace, round[0].trace);
  EXPECT_EQ(spans[0].parent, round[0].id);
  SpanMaker other("d");
  (void)other.from(at(10), round_in(RoundState::kOpen));
  EXPECT_NE(other.from(at(41), round_in(RoundState::kCommitted))[0].trace, round[0].trace);
}

}  // namespace
}  // namespace shoal::coordinator::otlp
