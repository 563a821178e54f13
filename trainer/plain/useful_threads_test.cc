#include "trainer/plain/useful_threads.h"

#include <gtest/gtest.h>

namespace shoal::trainer {
namespace {

JobSpec model(std::int64_t hidden, std::int64_t context, std::int64_t batch) {
  JobSpec spec;
  spec.model.hidden = hidden;
  spec.model.context = context;
  spec.train.batch = batch;
  return with_derived_fields(spec);
}

// Those of docs/performance_compute.md: where two threads were slower than one, and where not.
TEST(UsefulThreads, SmallModelsHaveOne) {
  EXPECT_EQ(useful_threads(model(32, 32, 4), 8), 1);
  EXPECT_EQ(useful_threads(model(64, 64, 16), 8), 1);
  EXPECT_EQ(useful_threads(model(128, 128, 8), 8), 1);
}

TEST(UsefulThreads, LargeOnesHaveWhatTheyMayHave) {
  EXPECT_EQ(useful_threads(model(384, 256, 4), 2), 2);
  EXPECT_EQ(useful_threads(model(384, 256, 4), 64), 6);
  EXPECT_EQ(useful_threads(model(4096, 4096, 64), 64), 64);
}

TEST(UsefulThreads, OneIsTheLeast) { EXPECT_EQ(useful_threads(model(4096, 4096, 1), 1), 1); }

}  // namespace
}  // namespace shoal::trainer
