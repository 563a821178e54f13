// Which values of the model a stage has, and where it finds them in files of another cut.
#include "tests/sim/trainer/stage_values.h"

#include <gmock/gmock.h>

namespace shoal::sim {
namespace {

using testing::ElementsAre;

Assign of_stage(StageIndex stage, std::vector<UnitRange> cut) {
  Assign assign;
  assign.stage = stage;
  assign.cut = std::move(cut);
  return assign;
}

TEST(StageValues, StagesShareTheValuesByTheirUnits) {
  const StageValues whole = values_of_stage(of_stage(0, {{0, 4}}), 18);
  EXPECT_EQ(whole.first, 0u);
  EXPECT_EQ(whole.count, 18u);
  const std::vector<UnitRange> cut{{0, 1}, {1, 4}};
  EXPECT_EQ(values_of_stage(of_stage(0, cut), 18).count, 4u);
  EXPECT_EQ(values_of_stage(of_stage(1, cut), 18).first, 4u);
  EXPECT_EQ(values_of_stage(of_stage(1, cut), 18).count, 14u);
}

TEST(StageValues, AreFoundInFilesOfAnotherCut) {
  CheckpointFiles files;
  files.first = 4;
  files.state.anchor = {4, 5, 6, 7, 8};
  files.state.vectors = {{"momentum", {14, 15, 16, 17, 18}}};
  const auto state = state_in(files, {5, 3});
  ASSERT_TRUE(state);
  EXPECT_THAT(state->anchor, ElementsAre(5, 6, 7));
  ASSERT_EQ(state->vectors.size(), 1u);
  EXPECT_THAT(state->vectors[0].values, ElementsAre(15, 16, 17));
  EXPECT_TRUE(state_in(files, {4, 5}));
  EXPECT_FALSE(state_in(files, {3, 2}));
  EXPECT_FALSE(state_in(files, {7, 3}));
}

}  // namespace
}  // namespace shoal::sim
