#include "cli/toml_edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(TomlEdit, AValueIsReplacedWhereItStands) {
  EXPECT_THAT(with_field("# a\n[train]  # b\nlr = 1e-3   # c\nx = 1\n", {"train", "lr"}, "0.5"),
              ElementsAre("# a\n[train]  # b\nlr = 0.5   # c\nx = 1\n"));
  EXPECT_THAT(with_field("[train]\nbetas = [\n  0.9,\n  0.95,\n]\n", {"train", "betas"}, "[1, 2]"),
              ElementsAre("[train]\nbetas = [1, 2]\n"));
}

TEST(TomlEdit, ColumnsAreNotBytes) {
  EXPECT_THAT(with_field("\"ü\" = 1\nt = { \"é\" = \"ä\", n = \"ö\" } # ß\n", {"t", "n"}, "7"),
              ElementsAre("\"ü\" = 1\nt = { \"é\" = \"ä\", n = 7 } # ß\n"));
}

TEST(TomlEdit, AMissingKeyIsWrittenBelowItsHeader) {
  EXPECT_THAT(with_field("[train] # b\nlr = 1\n", {"train", "steps"}, "5"),
              Contains("[train] # b\nsteps = 5\nlr = 1\n"));
  EXPECT_THAT(with_field("[train]", {"train", "steps"}, "5"), Contains("[train]\nsteps = 5\n"));
}

TEST(TomlEdit, AMissingTableIsWrittenAtTheEnd) {
  EXPECT_THAT(with_field("name = \"x\"", {"sync", "outer", "lr"}, "1"),
              ElementsAre("name = \"x\"\n\n[sync.outer]\nlr = 1\n"));
}

TEST(TomlEdit, AMissingKeyOfTheTopIsWrittenFirst) {
  EXPECT_THAT(with_field("[data]\ntrain = \"a\"\n", {"name"}, "\"x\""),
              ElementsAre("name = \"x\"\n[data]\ntrain = \"a\"\n"));
}

}  // namespace
}  // namespace shoal::cli
