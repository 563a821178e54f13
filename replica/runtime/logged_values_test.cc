#include "replica/runtime/logged_values.h"

#include <string>

#include <gtest/gtest.h>

namespace shoal::replica {
namespace {

TEST(LoggedValues, OfEachNameTheNewestIsKept) {
  std::vector<LoggedValue> kept;
  keep_newest(kept, {{"norm", Steps(1), 5}, {"rate", Steps(1), 6}});
  keep_newest(kept, {{"norm", Steps(2), 7}});
  EXPECT_EQ(kept, (std::vector<LoggedValue>{{"norm", Steps(2), 7}, {"rate", Steps(1), 6}}));
}

TEST(LoggedValues, AFullListTakesNoFurtherNames) {
  std::vector<LoggedValue> kept;
  for (std::size_t i = 0; i <= kLoggedValuesMax; ++i) {
    keep_newest(kept, {{"n" + std::to_string(i), Steps(1), 1}});
  }
  EXPECT_EQ(kept.size(), kLoggedValuesMax);
  keep_newest(kept, {{"n0", Steps(2), 3}});
  EXPECT_EQ(kept.front(), (LoggedValue{"n0", Steps(2), 3}));
}

}  // namespace
}  // namespace shoal::replica
