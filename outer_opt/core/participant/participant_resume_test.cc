// A replica that continues from its anchor in another epoch.
#include <gtest/gtest.h>

#include "outer_opt/core/participant/participant_test_util.h"

namespace shoal::outer_opt {
namespace {

RoundKey in_epoch(std::int64_t epoch, RoundNumber round) { return {kHeld.job, epoch, round}; }

TEST(Participant, ResumesInAnotherEpochFromTheRoundItHolds) {
  for (const std::string state : {"idle", "training", "reported", "reducing", "voted"}) {
    Participant p = make(state);
    Actions out;
    const RoundKey resumed = in_epoch(kHeld.epoch + 1, kHeld.round);
    p.resume({resumed, {}}, out);
    EXPECT_TRUE(names(out).ends_with("return to anchor")) << state << ": " << names(out);
    EXPECT_EQ(p.state(), ParticipantState::kIdle);
    EXPECT_EQ(p.held(), resumed);
    out.clear();
    p.open(open_round(), out);
    p.resume({resumed, {}}, out);  // said twice
    EXPECT_EQ(names(out), "") << "the order is of the past epoch";
    OpenRound next = open_round();
    next.key = in_epoch(kHeld.epoch + 1, kHeld.round + 1);
    p.open(next, out);
    EXPECT_EQ(names(out), "train" + std::to_string(next.to_step.n));
  }
}

TEST(Participant, ResumesAfterTheOuterStepThatIsUnderWay) {
  Participant p = make("taking");
  Actions out;
  p.resume({in_epoch(kNext.epoch + 1, kNext.round), {}}, out);
  EXPECT_EQ(names(out), "");
  p.outer_step_taken({kNext, {1, 1}, {2, 2}}, out);
  EXPECT_TRUE(names(out).ends_with("return to anchor")) << names(out);
  EXPECT_EQ(p.held(), in_epoch(kNext.epoch + 1, kNext.round));
}

TEST(Participant, CannotResumeAtARoundThatItDoesNotHold) {
  Participant p = make("training");
  Actions out;
  p.resume({in_epoch(kHeld.epoch + 1, kHeld.round + 1), {}}, out);
  EXPECT_EQ(names(out), "stop_training stale");
}

}  // namespace
}  // namespace shoal::outer_opt
