#include "cli/format.h"

#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

TEST(Format, CountsAndDurations) {
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(999.4), "999");
  EXPECT_EQ(human_count(999.5), "1.00k");
  EXPECT_EQ(human_count(13'080), "13.1k");
  EXPECT_EQ(human_duration(4.21), "4.2 s");
  EXPECT_EQ(human_duration(0.0421), "42 ms");
  EXPECT_EQ(human_duration(59.4), "59 s");
  EXPECT_EQ(human_duration(125), "2m 05s");
  EXPECT_EQ(human_duration(3 * 3600 + 12 * 60), "3h 12m");
  EXPECT_EQ(human_duration(47 * 3600 + 59 * 60), "47h 59m");
  EXPECT_EQ(human_duration(90 * 86400 + 3600), "90d 01h");
  EXPECT_EQ(human_duration(-1), "-");
}

TEST(Format, RatesOfLinesAreInBits) {
  EXPECT_EQ(human_bit_rate(24e6), "24.0 Mbit/s");
  EXPECT_EQ(human_bit_rate(9.85e9), "9.85 Gbit/s");
  EXPECT_EQ(human_bit_rate(999.6e6), "1.00 Gbit/s");
  EXPECT_EQ(human_bit_rate(500), "500 bit/s");
}

TEST(Format, OneIsNotMany) {
  EXPECT_EQ(plural(0, "agent"), "0 agents");
  EXPECT_EQ(plural(1, "agent"), "1 agent");
  EXPECT_EQ(plural(2, "agent"), "2 agents");
}

TEST(Format, NamesAreOrderedByTheirNumbers) {
  EXPECT_TRUE(comes_before("agent-2", "agent-10"));
  EXPECT_FALSE(comes_before("agent-10", "agent-2"));
  EXPECT_TRUE(comes_before("agent-2", "reducer-1"));
  EXPECT_TRUE(comes_before("agent", "agent-1"));
  EXPECT_TRUE(comes_before("a2b1", "a2b3"));
  EXPECT_FALSE(comes_before("agent-2", "agent-2"));
}

TEST(Format, ReadsRfc3339) {
  EXPECT_DOUBLE_EQ(parse_rfc3339("1970-01-01T00:01:00Z").value(), 60);
  EXPECT_DOUBLE_EQ(parse_rfc3339("2026-01-01T00:00:00.250Z").value(), 1767225600.25);
  EXPECT_FALSE(parse_rfc3339("yesterday"));
  EXPECT_FALSE(parse_rfc3339(""));
  EXPECT_EQ(human_age("1970-01-01T00:01:00Z", 90), "30 s ago");
  EXPECT_EQ(human_age("1970-01-01T00:01:00Z", 60), "now");
  EXPECT_EQ(human_age("-", 90), "-");
}

TEST(Format, FindsTheWordThatWasMeant) {
  const std::vector<std::string> commands = {"validate", "submit", "ls", "get", "watch", "cancel"};
  EXPECT_EQ(nearest("sumbit", commands), "submit");
  EXPECT_EQ(nearest("wach", commands), "watch");
  EXPECT_EQ(nearest("list", commands), std::nullopt);
  EXPECT_EQ(nearest("generate", commands), std::nullopt);
}

}  // namespace
}  // namespace shoal::cli
