#include "base/number_text.h"

#include <gtest/gtest.h>

namespace shoal {
namespace {

TEST(NumberText, TakesWhatIsInTheRange) {
  for (const char* good : {"0", "0.5", "1", "1e-3", "-0"}) {
    EXPECT_EQ(number_problem(good, 0, 1), "") << good;
  }
}

TEST(NumberText, RefusesWhatIsNoFiniteNumberOfTheRange) {
  for (const char* bad : {"nan", "NaN", "-nan", "inf", "-inf", "infinity", "1e999", "", "x", "0.5x",
                          "0,5", "-0.1", "1.001", "0x1", " 1"}) {
    EXPECT_NE(number_problem(bad, 0, 1), "") << bad;
  }
  EXPECT_EQ(number_problem("nan", 0.001, 86'400), "must be a number from 0.001 to 86400, got nan");
}

TEST(SizeText, HasThreeFiguresAndDecimalUnits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(999), "999 B");
  EXPECT_EQ(size_text(4'404'412), "4.40 MB");
  EXPECT_EQ(size_text(26'214'400), "26.2 MB");
  EXPECT_EQ(size_text(999'999), "1.00 MB");
  EXPECT_EQ(size_text(2.9e9), "2.90 GB");
}

}  // namespace
}  // namespace shoal
