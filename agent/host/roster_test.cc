#include "agent/host/roster.h"

#include <fstream>

#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

Roster two() {
  return {"6a0f",
          "9c41",
          {{{0, 3}, 0, {812, 4711}, 7101, "00ff", TrainerIdentity{}, ""},
           {{2, 1},
            1,
            {900, 5000},
            0,
            "11ee",
            TrainerIdentity{
                {TrainerKind::kPython, "a b/100%\n-.py", "sha256:c1"}, ReplicaId(7), JobId(3), 2},
            "GPU-b,GPU-c"}}};
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
  const std::string head = "shoal-trainers 3\nboot b\nsettings s\n";
  const std::string none = " 0 0 0 builtin = = =";
  for (const std::string& line :
       {std::string("trainer 0 1 0 812 4711 7101"), std::string("trainer 0 1 0 812 4711 7101 00"),
        "trainer 0 1 0 812 4711 7101 00" + none + " ff", "trainer 0 1 0 -5 4711 7101 00" + none,
        "trainer -1 1 0 8 4711 7101 00" + none, "trainer 0 1 0 x 4711 7101 00" + none,
        "helper 0 1 0 8 4711 7101 00" + none,
        std::string("trainer 0 1 0 8 47 71 00 1 1 0 any = = ="),
        std::string("trainer 0 1 0 8 47 71 00 1 1 0 python =c a.py ="),
        std::string("trainer 0 1 0 8 47 71 00 1 1 0 python =c =a%2 ="),
        std::string("trainer 0 1 0 8 47 71 00 1 1 0 python =c =a%zz ="),
        std::string("trainer 0 1 0 8 47 71 00 1 1 -1 python =c =a ="),
        std::string("trainer 0 1 0 8 47 71 00 1 1 0 python =c =a"),
        std::string("trainer 0 1 0 8 47 71 00 1 1 0 python =c =a GPU-b")}) {
    const auto read = parse_roster(head + line + "\n");
    ASSERT_FALSE(read.ok()) << line;
    EXPECT_EQ(read.error().code, Code::kDataLoss);
    EXPECT_NE(read.error().message.find(line), std::string::npos);
  }
  for (const std::string text : {"", "shoal-trainers 4\nboot b\nsettings s\n", "shoal-trainers 1\n",
                                 "shoal-trainers 1\nboot b\n"}) {
    EXPECT_FALSE(parse_roster(text).ok()) << text;
  }
}

TEST(Roster, AListOfVersion1DoesNotTellWhichReplicaATrainerIs) {
  const auto read =
      parse_roster("shoal-trainers 1\nboot b\nsettings s\ntrainer 0 3 0 812 4711 7101 00ff\n");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  const RosterEntry expected{{0, 3}, 0, {812, 4711}, 7101, "00ff"};
  ASSERT_EQ(read->trainers, std::vector{expected});
  EXPECT_FALSE(read->trainers[0].identity.has_value());
}

TEST(Roster, AListOfVersion2DoesNotTellWhichGpusATrainerSees) {
  const auto read = parse_roster(
      "shoal-trainers 2\nboot b\nsettings s\ntrainer 0 3 0 812 4711 7101 00ff 0 0 0 builtin = =\n");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  ASSERT_EQ(read->trainers.size(), 1u);
  EXPECT_TRUE(read->trainers[0].identity.has_value());
  EXPECT_FALSE(read->trainers[0].gpus.has_value());
}

TEST(Roster, ANonceIsNeverTheSame) {
  EXPECT_EQ(random_hex().size(), 32u);
  EXPECT_NE(random_hex(), random_hex());
}

}  // namespace
}  // namespace shoal::agent
