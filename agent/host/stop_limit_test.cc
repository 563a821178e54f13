#include "agent/host/stop_limit.h"

#include <future>

#include <gtest/gtest.h>

namespace shoal::agent {
namespace {

constexpr std::chrono::seconds kLimit{30};

class StopLimitTest : public testing::Test {
 protected:
  std::promise<std::string> hung_;
  std::future<std::string> hangs_ = hung_.get_future();
  StopLimit limit_{[this](const std::string& hangs) { hung_.set_value(hangs); }};
};

TEST_F(StopLimitTest, NamesWhatDidNotEnd) {
  limit_.waits_for("the upload of ckpt_4");
  limit_.begin(milliseconds(20));
  ASSERT_EQ(hangs_.wait_for(kLimit), std::future_status::ready);
  EXPECT_EQ(hangs_.get(), "the upload of ckpt_4");
}

TEST_F(StopLimitTest, TheEarliestOfSeveralDeadlinesCounts) {
  limit_.begin(seconds(3600));
  limit_.begin(milliseconds(20));
  limit_.begin(seconds(3600));
  EXPECT_EQ(hangs_.wait_for(kLimit), std::future_status::ready);
}

TEST(StopLimit, WhatEndsInTimeIsLeftAlone) {
  bool expired = false;
  {
    StopLimit limit([&](const std::string&) { expired = true; });
    limit.begin(seconds(3600));
  }
  {
    const StopLimit unused([&](const std::string&) { expired = true; });
  }
  EXPECT_FALSE(expired);
}

}  // namespace
}  // namespace shoal::agent
