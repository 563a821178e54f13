// Names of the enumerators in messages: people read them, and they are labels of metrics.
#include "messages/messages.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace shoal {
namespace {

// How many enumerators have a name; each must have its own.
template <typename Enum>
std::size_t count_enumerators() {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string word = to_string(static_cast<Enum>(i));
    if (word == "unknown") return seen.size();
    EXPECT_TRUE(seen.insert(word).second) << word << " names two";
    EXPECT_EQ(word.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << word;
  }
  return seen.size();
}

TEST(Messages, EveryEnumeratorHasANameOfItsOwn) {
  EXPECT_EQ(count_enumerators<DeviceKind>(), 3u);
  EXPECT_EQ(count_enumerators<ReplicaFailure>(), 16u);
  EXPECT_EQ(count_enumerators<SourceKind>(), 3u);
  EXPECT_EQ(count_enumerators<ReleaseReason>(), 6u);
}

TEST(Messages, NamesByHand) {
  EXPECT_STREQ(to_string(DeviceKind::kCuda), "cuda");
  EXPECT_STREQ(to_string(ReplicaFailure::kOutOfMemory), "out_of_memory");
  EXPECT_STREQ(to_string(SourceKind::kCheckpoint), "checkpoint");
  EXPECT_STREQ(to_string(ReleaseReason::kDraining), "draining");
}

}  // namespace
}  // namespace shoal
