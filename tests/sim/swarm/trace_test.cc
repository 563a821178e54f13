// Traces are files that people bring: what cannot be read is refused with the number of its line.
#include "tests/sim/swarm/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::sim::swarm {
namespace {

using testing::HasSubstr;

TEST(Trace, RowsBecomeEvents) {
  const auto rows = parse_trace("# T4, one region\n0.5,remove,3\r\n\n90,add,3\n90,remove,0");
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_EQ(rows.value()[0].at, Instant{} + milliseconds(500));
  EXPECT_FALSE(rows.value()[0].add);
  EXPECT_TRUE(rows.value()[1].add);
  EXPECT_EQ(rows.value()[2].agent, 0);
  EXPECT_TRUE(parse_trace("")->empty());
}

TEST(Trace, BadRowsAreRefusedByTheirLine) {
  for (const char* bad : {"x,add,1", ",add,1", "1,gone,1", "1,add", "1,add,", "1,add,-1",
                          "-1,add,1", "1,add,1,2", "1,add,1.5", "nan,add,1", "inf,add,1",
                          "1e300,add,1", "1 ,add,1", "1,add,99999999999", "add"}) {
    const auto rows = parse_trace(std::string("# a comment\n1,remove,1\n") + bad + "\n2,add,1\n");
    ASSERT_FALSE(rows) << bad;
    EXPECT_THAT(rows.error().message, HasSubstr("line 3: ")) << bad;
    EXPECT_THAT(rows.error().message, HasSubstr(bad));
  }
}

TEST(Trace, TimeDoesNotGoBack) {
  const auto rows = parse_trace("5,remove,1\n4,add,1\n");
  ASSERT_FALSE(rows);
  EXPECT_THAT(rows.error().message, HasSubstr("line 2: "));
}

}  // namespace
}  // namespace shoal::sim::swarm
