#include "trainer/plain/threads.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "base/thread_environment.h"

namespace shoal::trainer {
namespace {

JobSpec model(std::int64_t hidden, std::int64_t context, std::int64_t batch) {
  JobSpec spec;
  spec.model.hidden = hidden;
  spec.model.context = context;
  spec.train.batch = batch;
  return with_derived_fields(spec);
}

// The models of docs/performance_compute.md: where two threads were slower than one, and where not.
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

class ThreadEnvironment : public testing::Test {
 protected:
  ThreadEnvironment() {
    for (const EnvironmentEntry& entry : kThreadEnvironment) unsetenv(entry.name);
  }
};

TEST_F(ThreadEnvironment, IsCompletedOnce) {
  EXPECT_TRUE(complete_thread_environment());
  for (const EnvironmentEntry& entry : kThreadEnvironment) {
    EXPECT_STREQ(std::getenv(entry.name), entry.value);
  }
  EXPECT_FALSE(complete_thread_environment()) << "nothing is missing: no second start";
}

TEST_F(ThreadEnvironment, OfTheOperatorStays) {
  setenv("OMP_WAIT_POLICY", "ACTIVE", 1);
  EXPECT_TRUE(complete_thread_environment()) << "the other one is missing";
  EXPECT_STREQ(std::getenv("OMP_WAIT_POLICY"), "ACTIVE");
}

}  // namespace
}  // namespace shoal::trainer
