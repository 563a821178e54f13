// How people are told which parameters of two models differ.
#include "messages/tensor_differences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

std::vector<TensorShape> model() {
  return {{"embed", {300, 64}, "F32"}, {"norm.bias", {64}, "F32"}, {"scale", {}, "F32"}};
}

TEST(TensorDifferences, TheSameModelHasNoneWhateverItsTypesAre) {
  auto other = model();
  for (TensorShape& tensor : other) tensor.type = "BF16";
  EXPECT_EQ(differences(model(), other), "");
  EXPECT_EQ(type_differences(model(), model()), "");
}

TEST(TensorDifferences, MissingExtraAndMisshapedOnesAreNamed) {
  auto here = model();
  here[0].shape = {300, 32};
  here[1].name = "norm.weight";
  EXPECT_EQ(differences(here, model()),
            "embed has shape [300, 32] here and [300, 64] there; norm.weight is only here; "
            "norm.bias is only there");
  here = model();
  here[2].shape = {1};
  EXPECT_EQ(differences(here, model()), "scale has shape [1] here and [] there");
}

// As many values, which would be taken for others.
TEST(TensorDifferences, AnotherOrderIsADifference) {
  auto here = model();
  std::swap(here[0], here[2]);
  EXPECT_EQ(differences(here, model()), "parameter 0 is scale here and embed there");
}

TEST(TensorDifferences, TenAreNamed) {
  std::vector<TensorShape> here;
  for (int i = 0; i < 13; ++i) here.push_back({"w" + std::to_string(i), {4}, "F32"});
  const std::string text = differences(here, {});
  EXPECT_THAT(text, testing::HasSubstr("w9 is only here"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("w10")));
  EXPECT_THAT(text, testing::EndsWith("; and 3 more"));
}

TEST(TensorDifferences, TypesAreNamedOfTensorsThatBothHave) {
  auto here = model();
  here[0].type = "BF16";
  here[1] = {"norm.weight", {64}, "F16"};
  EXPECT_EQ(type_differences(here, model()), "embed is BF16 here and F32 there");
}

}  // namespace
}  // namespace shoal
