// What follows from the table of an enum.
#include "base/enumerators.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace elsewhere {

using shoal::to_string;

enum class Pace { kSlow, kFast, kVeryFast };
constexpr auto enumerators_of(shoal::Of<Pace>) {
  using enum Pace;
  return shoal::enumerators<Pace>({{kSlow, "slow"}, {kFast, "fast"}, {kVeryFast, "very_fast"}});
}

}  // namespace elsewhere

namespace shoal {
namespace {

using elsewhere::Pace;

enum class Unnamed { kOne };
static_assert(HasEnumerators<Pace> && !HasEnumerators<Unnamed> && !HasEnumerators<int>);
static_assert(enumerator_count<Pace>() == 3);

TEST(Words, AWordPerValue) {
  EXPECT_STREQ(to_string(Pace::kSlow), "slow");
  EXPECT_STREQ(to_string(Pace::kVeryFast), "very_fast");
  EXPECT_STREQ(to_string(static_cast<Pace>(3)), "unknown");
  EXPECT_STREQ(to_string(static_cast<Pace>(-1)), "unknown");
}

TEST(Words, AndBack) {
  EXPECT_EQ(parse_enumerator<Pace>("fast"), Pace::kFast);
  EXPECT_EQ(parse_enumerator<Pace>("very"), std::nullopt);
  EXPECT_EQ(parse_enumerator<Pace>("unknown"), std::nullopt);
}

TEST(Words, AllOfThemInOrder) {
  std::vector<std::string> seen;
  for (const auto& [value, text] : kEnumerators<Pace>) seen.push_back(text);
  EXPECT_EQ(seen, (std::vector<std::string>{"slow", "fast", "very_fast"}));
}

}  // namespace
}  // namespace shoal
