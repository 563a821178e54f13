// Local parameters that give way to an anchor while a reduce reads them.
#include "replica/runtime/held_parameters.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "replica/core/replica_test_util.h"

namespace shoal::replica {
namespace {

TEST(HeldParameters, AreReadWhileOthersAreInTheirPlace) {
  constexpr std::size_t kValues = 4096;
  VectorParameters where(std::vector<float>(kValues, 1.0f));
  HeldParameters held(where);
  std::atomic<bool> over = false;
  std::thread reduce([&] {
    std::vector<float> run(64);
    for (std::size_t first = 0; !over; first = (first + run.size()) % kValues) {
      held.read_part(static_cast<std::int64_t>(first), run);
      for (const float value : run) ASSERT_EQ(value, 1.0f);
    }
  });
  const std::vector<float> anchor(kValues, 2.0f);
  for (int i = 0; i < 200; ++i) {
    held.put_aside(anchor);
    EXPECT_EQ(where.values, anchor);
    held.put_back();
    EXPECT_EQ(where.values[i], 1.0f);
  }
  over = true;
  reduce.join();
}

}  // namespace
}  // namespace shoal::replica
