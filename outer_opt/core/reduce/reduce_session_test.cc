// What every session does with a frame, whatever its topology: the header that is due is taken, any
// other breaks the session and is blamed on its sender. A butterfly of two stands for all.
#include "outer_opt/core/reduce/reduce_session.h"

#include <cfloat>
#include <cmath>

#include "outer_opt/core/reduce/butterfly_session.h"
#include "outer_opt/core/reduce/session_test_util.h"

namespace shoal::outer_opt {
namespace {

TEST(AllFinite, InfinitiesAndNansAreNot) {
  EXPECT_TRUE(all_finite(std::vector<float>{0, -1, FLT_MAX, -FLT_MAX}));
  EXPECT_TRUE(all_finite({}));
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    EXPECT_FALSE(all_finite(std::vector<float>{1, bad, 2})) << bad;
  }
}

struct BadFrame : testing::Test {
  ReducePlan plan = make_plan(CodecKind::kFp32, 4, {1, 1});
  std::vector<float> input{1, 2, 3, 4}, average = std::vector<float>(4);
  ButterflySession session{plan, ReplicaId(10), 2, {input, {}}, average};
  std::vector<float> values{5, 6};

  FrameHeader good() const {
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(values))};
    return {FrameKind::kContribution, CodecKind::kFp32, 0, 0, 0, 2, 8, payload_checksum(pieces)};
  }
  void deliver(const FrameHeader& header) {
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(values))};
    if (const auto work = session.admit(1, header))
      session.finish(*work, session.run(*work, pieces));
  }
  void expect_blamed() const {
    ASSERT_EQ(session.state(), SessionState::kBroken);
    EXPECT_EQ(session.failure().failure, ReduceFailure::kBadFrame);
    EXPECT_EQ(session.failure().peer, 1);
  }
};

TEST_F(BadFrame, GoodOneIsTaken) {
  deliver(good());
  EXPECT_EQ(session.state(), SessionState::kRunning);
  EXPECT_EQ(average[0], 3.0f);
}
TEST_F(BadFrame, SecondTime) {
  deliver(good());
  deliver(good());
  expect_blamed();
}
TEST_F(BadFrame, TheFirstFailureCountsAndNothingIsTakenAfterIt) {
  deliver(good());
  deliver(good());
  session.fail({ReduceFailure::kTimeLimit, -1, "too late"});
  expect_blamed();
  FrameHeader next = good();
  next.first = 2, next.chunk = 1;
  EXPECT_FALSE(session.admit(1, next));
  EXPECT_FALSE(session.local_work());
}
TEST_F(BadFrame, NotFinite) {
  values[1] = NAN;
  deliver(good());
  expect_blamed();
}

// One field of the header is another one than that of the frame that is due.
struct ChangedHeader {
  const char* name;
  void (*change)(FrameHeader& header);
};
struct BadFrameHeader : BadFrame, testing::WithParamInterface<ChangedHeader> {};
TEST_P(BadFrameHeader, IsBlamedOnItsSender) {
  FrameHeader header = good();
  GetParam().change(header);
  deliver(header);
  expect_blamed();
}
INSTANTIATE_TEST_SUITE_P(
    Fields, BadFrameHeader,
    testing::Values(ChangedHeader{"part", [](FrameHeader& h) { h.part = 1; }},
                    ChangedHeader{"count", [](FrameHeader& h) { h.count = 1; }},
                    ChangedHeader{"first", [](FrameHeader& h) { h.first = 2; }},
                    ChangedHeader{"codec", [](FrameHeader& h) { h.codec = CodecKind::kInt8; }},
                    ChangedHeader{"checksum", [](FrameHeader& h) { h.checksum ^= 1; }},
                    ChangedHeader{"chunk", [](FrameHeader& h) { h.chunk = 1; }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace shoal::outer_opt
