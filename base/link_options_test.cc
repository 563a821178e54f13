// What a line may be, and the name of the field that it may not.
#include "base/link_options.h"

#include <string>

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(LinkOptions, ReadsItsOptions) {
  const auto link = parse_link("up=200mbit,down=1gbit,rtt=80ms,jitter=5ms");
  ASSERT_TRUE(link.ok());
  EXPECT_EQ(link->up_bytes_per_s, 25e6);
  EXPECT_EQ(link->down_bytes_per_s, 125e6);
  EXPECT_EQ(link->rtt, milliseconds(80));
  EXPECT_EQ(link->jitter, milliseconds(5));
  EXPECT_EQ(parse_link("rtt=0.5s")->rtt, milliseconds(500));
}

TEST(LinkOptions, NamesTheBadField) {
  const auto field = [](const char* text) {
    const auto link = parse_link(text);
    return link.ok() ? std::string("none") : link.error().field;
  };
  EXPECT_EQ(field("up=200,rtt=80ms"), "up");
  EXPECT_EQ(field("up=0mbit"), "up");
  EXPECT_EQ(field("up=1mbit,down=-1mbit"), "down");
  EXPECT_EQ(field("rtt=80"), "rtt");
  EXPECT_EQ(field("rtt"), "rtt");
  EXPECT_EQ(field("rtt=nanms"), "rtt");
  EXPECT_EQ(field("jitter=5parsecs"), "jitter");
  EXPECT_EQ(field("loss=1"), "loss");
  EXPECT_EQ(field("rtt=1ms,rtt=2ms"), "rtt");
  EXPECT_FALSE(parse_link("").ok());
}

}  // namespace
}  // namespace shoal
