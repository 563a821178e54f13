#include "threads/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace shoal {
namespace {

TEST(DescriptorLimit, RaisesTheSoftLimitToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{std::min<rlim_t>(64, before.rlim_max), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const std::size_t now = raise_descriptor_limit();
  EXPECT_EQ(now, static_cast<std::size_t>(std::min<rlim_t>(before.rlim_max, 1 << 20)));
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, now);
  EXPECT_EQ(after.rlim_max, before.rlim_max);
}

}  // namespace
}  // namespace shoal
