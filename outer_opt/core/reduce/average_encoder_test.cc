// What gets its sum run by run encodes it as a whole.
#include "outer_opt/core/reduce/average_encoder.h"

#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/codec/codec_test_util.h"

namespace shoal::outer_opt {
namespace {

TEST(AverageEncoder, RunsGiveWhatTheWholeGives) {
  for (const CodecKind kind : kDenseCodecs) {
    const Codec& c = codec(kind);
    const std::size_t size = kind == CodecKind::kFp32 ? 0 : c.encoded_size(kExampleValues);
    std::vector<float> whole = example_values(), runs = whole;
    std::vector<std::byte> whole_bytes(size), run_bytes(size);
    AverageEncoder once(c, 0.5f, whole_bytes), by_run(c, 0.5f, run_bytes);
    once.add(whole);
    ASSERT_TRUE(for_each_run(kExampleValues, [&](const ValueRun& run) {
                  by_run.add(std::span(runs).subspan(run.first, run.count));
                  return Status();
                }).ok());
    EXPECT_EQ(runs, whole);
    EXPECT_EQ(run_bytes, whole_bytes);
    EXPECT_EQ(by_run.payload_checksum(), once.payload_checksum());
    EXPECT_EQ(by_run.values_checksum(), once.values_checksum());
    const std::span<const std::byte> values[] = {std::as_bytes(std::span<const float>(whole))};
    EXPECT_EQ(once.values_checksum(), payload_checksum(values));
    EXPECT_TRUE(once.finite());
  }
}

TEST(AverageEncoder, SaysWhatTheCodecCannotHold) {
  std::vector<float> sum{1, 3e38f};
  AverageEncoder encoder(codec(CodecKind::kFp32), 2.0f, {});
  encoder.add(sum);
  EXPECT_FALSE(encoder.finite());
}

}  // namespace
}  // namespace shoal::outer_opt
