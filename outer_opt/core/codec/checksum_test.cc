// The checksum of a payload: one number, however it is cut and computed.
#include "outer_opt/core/codec/checksum.h"

#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

// XXH3-64 of no bytes, as its specification gives it.
TEST(Checksum, OfNothingIsTheOneOfTheSpecification) {
  EXPECT_EQ(kChecksumPortable.once(nullptr, 0), 0x2d06800538d394c2u);
  EXPECT_EQ(RunningChecksum().value(), 0x2d06800538d394c2u);
}

TEST(Checksum, PiecesGiveWhatTheWholeGives) {
  std::vector<std::byte> data(1000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(7 * i);
  const std::uint64_t whole = checksum_kernel().once(data.data(), data.size());
  for (const std::size_t cut : {0u, 1u, 255u, 256u, 999u, 1000u}) {
    RunningChecksum running;
    running.add(std::span(data).first(cut));
    running.add(std::span(data).subspan(cut));
    EXPECT_EQ(running.value(), whole) << cut;
  }
  data[500] ^= std::byte{1};
  EXPECT_NE(checksum_kernel().once(data.data(), data.size()), whole);
}

TEST(Checksum, AllVersionsAgree) {
  if (&checksum_kernel() == &kChecksumPortable) GTEST_SKIP() << "this processor has no AVX2";
  std::vector<std::byte> data(5000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * i);
  for (std::size_t size : {0, 1, 16, 17, 128, 240, 241, 1024, 4999}) {
    EXPECT_EQ(kChecksumAvx2.once(data.data(), size), kChecksumPortable.once(data.data(), size));
    alignas(64) std::byte state[kChecksumStateSize];
    kChecksumAvx2.reset(state);
    kChecksumAvx2.update(state, data.data(), size / 3);
    kChecksumAvx2.update(state, data.data() + size / 3, size - size / 3);
    EXPECT_EQ(kChecksumAvx2.finish(state), kChecksumPortable.once(data.data(), size));
  }
}

}  // namespace
}  // namespace shoal::outer_opt
