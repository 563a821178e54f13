#include "agent/host/roster.h"

#include <fstream>

#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

Roster two() {
  return {"6a0f",
          "9c41",
          {{{0, 3}, 0, {812, 4711}, 7101, "00ff"}, {{2, 1}, 1, {900, 5000}, 0, "11ee"}}};
}

TEST(Roster, IsReadAsItWasWritten) {
  TestFolder folder;
  const std::string path = folder.path() + "/trainers";
  ASSERT_TRUE(write_roster(path, two()).ok());
  const auto read = read_roster(path);
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(*read, two());
  EXPECT_EQ(read_roster(folder.path() + "/nothing").value(), Roster{});
}

TEST(Roster, OfNobodyIsNoMistake) {
  EXPECT_EQ(parse_roster(to_text({"b", "s", {}})).value(), (Roster{"b", "s", {}}));
}

TEST(Roster, ALineThatCannotBeReadIsNamed) {
  const std::string head = "shoal-trainers 1\nboot b\nsettings s\n";
  for (const std::string& line :
       {std::string("trainer 0 1 0 812 4711 7101"),
        std::string("trainer 0 1 0 812 4711 7101 00 ff"),
        std::string("trainer 0 1 0 -5 4711 7101 00"), std::string("trainer -1 1 0 8 4711 7101 00"),
        std::string("trainer 0 1 0 x 4711 7101 00"), std::string("helper 0 1 0 8 4711 7101 00")}) {
    const auto read = parse_roster(head + line + "\n");
    ASSERT_FALSE(read.ok()) << line;
    EXPECT_EQ(read.error().code, Code::kDataLoss);
    EXPECT_NE(read.error().message.find(line), std::string::npos);
  }
  for (const std::string text : {"", "shoal-trainers 2\nboot b\nsettings s\n", "shoal-trainers 1\n",
                                 "shoal-trainers 1\nboot b\n"}) {
    EXPECT_FALSE(parse_roster(text).ok()) << text;
  }
}

TEST(Roster, ANonceIsNeverTheSame) {
  EXPECT_EQ(random_hex().size(), 32u);
  EXPECT_NE(random_hex(), random_hex());
}

}  // namespace
}  // namespace shoal::agent
