#include "objects/content_range.h"

#include <gtest/gtest.h>

namespace shoal::objects {
namespace {

TEST(ContentRange, SaysWhichPartOfAFileItIs) {
  const auto range = read_content_range("bytes 5-9/10");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 5);
  EXPECT_EQ(range->last, 9);
  EXPECT_EQ(range->whole, 10);
}

TEST(ContentRange, WhatDoesNotFitTogetherIsNone) {
  for (const char* text :
       {"", "bytes ", "bytes 5-9", "bytes 9-5/10", "bytes 5-10/10", "bytes 5-9/*", "bytes -5-9/10",
        "bytes */10", "bytes 5/9-10", "bits 5-9/10", "bytes 5-9/9223372036854775808"}) {
    EXPECT_FALSE(read_content_range(text)) << text;
  }
}

}  // namespace
}  // namespace shoal::objects
