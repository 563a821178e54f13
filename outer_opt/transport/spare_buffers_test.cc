// Buffers from one reduce to the next.
#include "outer_opt/transport/spare_buffers.h"

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

std::vector<Buffer> buffers_of(std::initializer_list<std::size_t> mebibytes) {
  std::vector<Buffer> buffers;
  for (const std::size_t size : mebibytes) buffers.emplace_back(size << 20);
  return buffers;
}

TEST(SpareBuffers, AreThoseThatWereGivenBack) {
  SpareBuffers spare;
  EXPECT_TRUE(spare.take().empty());
  auto given = buffers_of({1, 2});
  const std::byte* first = given[0].data();
  spare.give_back(std::move(given));
  spare.give_back(buffers_of({3}));
  const auto taken = spare.take();
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken[0].data(), first);
  EXPECT_EQ(taken[2].size(), std::size_t{3} << 20);
  EXPECT_TRUE(spare.take().empty());
}

TEST(SpareBuffers, AreAtMost64MiB) {
  SpareBuffers spare;
  spare.give_back(buffers_of({40}));
  spare.give_back(buffers_of({30, 20, 10}));
  EXPECT_EQ(spare.take().size(), 2u) << "40 and 20: neither 30 nor 10 fits beside them";
  spare.give_back(buffers_of({64}));
  EXPECT_EQ(spare.take().size(), 1u);
}

}  // namespace
}  // namespace shoal::outer_opt
