#include "tokenizer/decoder.h"

#include <gtest/gtest.h>

namespace shoal::tokenizer {
namespace {

const std::string kSign = "\xEF\xBF\xBD";
const std::string kMark = "\xE2\x96\x81";

TEST(Decoder, ByteLevelPutsCharactersTogether) {
  const std::vector<DecodeStep> steps = {DecodeByteLevel{}};
  EXPECT_EQ(decode_tokens(steps, {"Hi", "\xC4\xA0you"}), "Hi you");
  EXPECT_EQ(decode_tokens(steps, {"\xC3\x83", "\xC2\xA9"}), "\xC3\xA9");  // é out of two tokens
  EXPECT_EQ(decode_tokens(steps, {"\xC3\x83"}), kSign);
  EXPECT_EQ(decode_tokens(steps, {"<a b>"}), "<a b>");  // an added token with a blank
}

TEST(Decoder, AsLlama2Has) {
  const std::vector<DecodeStep> steps = {DecodeReplace{kMark, " "}, DecodeByteFallback{},
                                         DecodeFuse{}, DecodeStrip{" ", 1, 0}};
  EXPECT_EQ(decode_tokens(steps, {kMark + "a", kMark + "b"}), "a b");
  EXPECT_EQ(decode_tokens(steps, {"<0xC3>", "<0xA9>", "x"}), "\xC3\xA9x");
  EXPECT_EQ(decode_tokens(steps, {"<0xC3>", "x", "<0xZZ>"}), kSign + "x<0xZZ>");
}

TEST(Decoder, MetaspaceDropsTheFirstBlankUnlessNoneWasAdded) {
  const auto with = [](PrependScheme scheme) {
    return decode_tokens({DecodeMetaspace{{kMark, scheme}}}, {kMark + "a", kMark + "b"});
  };
  EXPECT_EQ(with(PrependScheme::kAlways), "a b");
  EXPECT_EQ(with(PrependScheme::kNever), " a b");
}

TEST(Decoder, WithoutStepsThereAreBlanksBetween) {
  EXPECT_EQ(decode_tokens({}, {"a", "b"}), "a b");
  EXPECT_EQ(decode_tokens({}, {}), "");
}

}  // namespace
}  // namespace shoal::tokenizer
