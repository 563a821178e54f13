// The ladder over lines that carry a given rate, in virtual time.
#include "coordinator/service/line_ladder.h"

#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"

namespace shoal::coordinator {
namespace {

struct TestLine {
  double up, down;  // bytes/s
  Duration round_trip;
};

class LineLadderTest : public testing::Test {
 protected:
  static constexpr double kMbit = 1e6 / 8;

  LineLadder ladder() {
    return {[this] { return random_.next(); }, now_};
  }
  static std::chrono::nanoseconds time_of(const MeasureLine& message, const TestLine& line) {
    const Duration carried = seconds_f(static_cast<double>(message.payload.size()) / line.down +
                                       static_cast<double>(message.answer_bytes) / line.up);
    return std::chrono::nanoseconds((carried + line.round_trip).ns);
  }
  static LineMeasured answer_to(const MeasureLine& message) {
    return {line_payload(message.id, message.answer_bytes), message.id};
  }
  // As the session drives it: it looks 4 times a second.
  HostLine measure(const TestLine& line) {
    LineLadder measured = ladder();
    while (!measured.is_over()) {
      const MeasureLine message = measured.next();
      bytes_ += static_cast<std::int64_t>(message.payload.size()) + message.answer_bytes;
      measured.sent(message.id, now_);
      const auto arrives = now_ + time_of(message, line);
      while (!measured.is_over() && now_ + kLookEvery < arrives) {
        now_ += kLookEvery;
        measured.look(now_);
      }
      if (measured.is_over()) break;
      now_ = arrives;
      EXPECT_TRUE(measured.answered(answer_to(message), now_));
    }
    return measured.line();
  }

  static constexpr std::chrono::milliseconds kLookEvery{250};
  Prng random_{7};
  LineLadder::Clock::time_point now_{};
  std::int64_t bytes_ = 0;
};

TEST_F(LineLadderTest, ALineHasItsRateInEachDirection) {
  const HostLine line = measure({40 * kMbit, 100 * kMbit, milliseconds(10)});
  EXPECT_NEAR(line.up, 40 * kMbit, 1);
  EXPECT_NEAR(line.down, 100 * kMbit, 1);
  EXPECT_EQ(line.round_trip, milliseconds(10));
  EXPECT_FALSE(line.at_least);
  EXPECT_LE(bytes_, 3 << 20);
}

TEST_F(LineLadderTest, ASlowLineIsNotBlockedByALargePayload) {
  const auto begun = now_;
  const HostLine line = measure({kMbit, 10 * kMbit, milliseconds(1)});
  EXPECT_NEAR(line.up, kMbit, 1);
  EXPECT_NEAR(line.down, 10 * kMbit, 1);
  EXPECT_EQ(bytes_, 384 << 10) << "64 KiB up, 64 and 256 KiB down";
  EXPECT_LT(now_ - begun, std::chrono::milliseconds(900));
}

TEST_F(LineLadderTest, AFarLineShowsALowerBound) {
  const HostLine line = measure({1000 * kMbit, 1000 * kMbit, milliseconds(100)});
  EXPECT_TRUE(line.at_least);
  EXPECT_LT(line.up, 1000 * kMbit);
  EXPECT_GT(line.up, 50 * kMbit);
}

TEST_F(LineLadderTest, AFarLineIsGivenItsSlowStartBeforeItCountsAsSlow) {
  const HostLine line = measure({20 * kMbit, 20 * kMbit, milliseconds(100)});
  EXPECT_FALSE(line.at_least) << "1 MiB took longer than four round trips";
  EXPECT_NEAR(line.up, 20 * kMbit, 1);
}

TEST_F(LineLadderTest, ARateAboveTenGigabitsCountsAsThat) {
  const HostLine line = measure({1e12, 1e12, microseconds(1)});
  EXPECT_LE(line.up, LineLadder::kRateMax);
  EXPECT_LE(line.down, LineLadder::kRateMax);
}

TEST_F(LineLadderTest, WhatIsUnderWayAtTheEndBoundsTheRate) {
  const HostLine line = measure({1000 * kMbit, 1000, milliseconds(1)});
  EXPECT_GT(line.down, 1000);
  EXPECT_LE(line.down, (64 << 10) / 2.9);
  EXPECT_EQ(line.up, 0) << "not measured";
  EXPECT_FALSE(line.at_least);
  EXPECT_EQ(line.round_trip, Duration()) << "so that it counts for a short time";
}

TEST_F(LineLadderTest, AFirstAnswerAfterTheLimitMeasuresNothing) {
  LineLadder late = ladder();
  const MeasureLine message = late.next();
  late.sent(message.id, now_);
  EXPECT_TRUE(late.answered(answer_to(message), now_ + std::chrono::milliseconds(3100)));
  ASSERT_TRUE(late.is_over());
  EXPECT_EQ(late.line(), HostLine());
}

TEST_F(LineLadderTest, AnAgentThatNeverAnswersHasASlowLine) {
  LineLadder silent = ladder();
  silent.sent(silent.next().id, now_);
  silent.look(now_ + std::chrono::milliseconds(2900));
  EXPECT_FALSE(silent.is_over());
  silent.look(now_ + std::chrono::seconds(3));
  ASSERT_TRUE(silent.is_over());
  EXPECT_NEAR(silent.line().up, (64 << 10) / 3., 1);
  EXPECT_NEAR(silent.line().down, (64 << 10) / 3., 1);
  EXPECT_EQ(silent.line().round_trip, Duration());
}

TEST_F(LineLadderTest, OnlyTheAnswerToWhatIsUnderWayCounts) {
  LineLadder measured = ladder();
  const MeasureLine message = measured.next();
  EXPECT_FALSE(measured.answered(answer_to(message), now_)) << "it has not left yet";
  measured.sent(message.id, now_);
  EXPECT_FALSE(measured.answered({"", message.id + 1}, now_));
  EXPECT_TRUE(measured.answered(answer_to(message), now_));
  EXPECT_FALSE(measured.answered(answer_to(message), now_)) << "twice";
}

TEST_F(LineLadderTest, AnAnswerMustHaveItsPayload) {
  LineLadder measured = ladder();
  MeasureLine message = measured.next();
  while (message.answer_bytes == 0) {
    measured.sent(message.id, now_);
    ASSERT_TRUE(measured.answered(answer_to(message), now_ += std::chrono::milliseconds(1)));
    message = measured.next();
  }
  measured.sent(message.id, now_);
  EXPECT_FALSE(measured.answered({"", message.id}, now_));
  const std::string prepared(static_cast<std::size_t>(message.answer_bytes), 'x');
  EXPECT_FALSE(measured.answered({prepared, message.id}, now_));
  EXPECT_TRUE(measured.answered(answer_to(message), now_));
}

}  // namespace
}  // namespace shoal::coordinator
