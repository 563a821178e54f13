#include "messages/line_probe.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(LineProbe, APayloadFollowsFromItsSeed) {
  EXPECT_EQ(line_payload(7, 20), line_payload(7, 20));
  EXPECT_NE(line_payload(7, 20), line_payload(8, 20));
  EXPECT_EQ(line_payload(7, 20).substr(0, 11), line_payload(7, 11)) << "no whole word is needed";
}

TEST(LineProbe, APayloadHasTheLengthThatWasAskedWithinItsBound) {
  EXPECT_EQ(line_payload(7, 0), "");
  EXPECT_EQ(line_payload(7, -1), "");
  EXPECT_EQ(line_payload(7, kLinePayloadMax + 1).size(), std::size_t{kLinePayloadMax});
}

}  // namespace
}  // namespace shoal
