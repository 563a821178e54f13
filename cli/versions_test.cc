#include "cli/versions.h"

#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

TEST(Versions, TheOlderOneIsToBeUpgraded) {
  EXPECT_EQ(version_advice("0.2.0", "0.1.0"),
            "this shoal is 0.2.0 and the coordinator 0.1.0: upgrade the coordinator");
  EXPECT_EQ(version_advice("0.1.0", "0.2.0"),
            "this shoal is 0.1.0 and the coordinator 0.2.0: upgrade shoal");
  EXPECT_EQ(version_advice("0.10.0", "0.9.12"),
            "this shoal is 0.10.0 and the coordinator 0.9.12: upgrade the coordinator");
}

TEST(Versions, NothingIsSaidOfTheSameAndOfNoVersion) {
  EXPECT_EQ(version_advice("0.2.0", "0.2.0"), "");
  for (const char* none : {"", "-", "1", "1.2", "1.2.", "a.b.c", "1.-2.3", "1,2,3"}) {
    EXPECT_EQ(version_advice("0.2.0", none), "") << none;
    EXPECT_EQ(version_advice(none, "0.2.0"), "") << none;
  }
}

}  // namespace
}  // namespace shoal::cli
