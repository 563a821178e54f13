#include "base/log_lines.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

const LogLine kLine{{100}, LogLevel::kWarning, "trainer-0", ReplicaId(7), "No SPACE left"};

TEST(LogLines, EachConditionOfAQueryCounts) {
  EXPECT_TRUE(fits({}, kLine));
  EXPECT_TRUE(fits({.level_min = LogLevel::kWarning}, kLine));
  EXPECT_FALSE(fits({.level_min = LogLevel::kError}, kLine));
  EXPECT_TRUE(fits({.after = Instant{99}}, kLine));
  EXPECT_FALSE(fits({.after = Instant{100}}, kLine));
  EXPECT_FALSE(fits({.source = "agent"}, kLine));
  EXPECT_TRUE(fits({.replicas = {ReplicaId(1), ReplicaId(7)}}, kLine));
  EXPECT_FALSE(fits({.replicas = {ReplicaId(1)}}, kLine));
}

TEST(LogLines, TextIsSoughtWithoutRegardToCase) {
  EXPECT_TRUE(fits({.text = "no space"}, kLine));
  EXPECT_FALSE(fits({.text = "nospace"}, kLine));
}

TEST(LogLines, LevelsHaveNames) {
  EXPECT_EQ(parse_enumerator<LogLevel>("warning"), LogLevel::kWarning);
  EXPECT_EQ(parse_enumerator<LogLevel>("loud"), std::nullopt);
}

}  // namespace
}  // namespace shoal
