// The history of streaming_history.h on devices, frames in memory: what a machine with a GPU can
// show without gRPC. streaming_golden_test.cc does the same over sockets.
#include <gtest/gtest.h>

#include "outer_opt/core/reduce/session_test_util.h"
#include "outer_opt/cuda/accelerator_test_util.h"
#include "outer_opt/cuda/gpu_test_util.h"
#include "tests/golden/streaming_devices.h"

namespace shoal::sim {
namespace {

using namespace golden;

void reduce_in_memory(const ReducePlan& plan, const DevicesOfMembers& devices) {
  outer_opt::SessionSwarm swarm(plan, kFrameValues, std::vector<std::vector<float>>(devices.size()),
                                {}, [&](std::size_t i, const ReducePlan& p) {
                                  return devices[i]->make_session(p, p.members[i].replica,
                                                                  p.members[i].weight > 0);
                                });
  Prng prng(plan.key.round);
  swarm.run(prng);
  for (const auto& session : swarm.sessions) {
    EXPECT_EQ(session->state(), outer_opt::SessionState::kDone);
    EXPECT_EQ(session->digest(), swarm.sessions.front()->digest());
  }
}

TEST(StreamingOnDevices, HasTheBitsOfTheSimulator) {
  outer_opt::HostAccelerator device;
  expect_history_on(device, simulated(streamed_job()), reduce_in_memory);
  EXPECT_EQ(device.held.load(), 0);
}

TEST(StreamingOnDevices, HasTheBitsOfTheSimulatorOnAGpu) {
  const auto device = outer_opt::test_gpu();
  if (!device) GTEST_SKIP() << outer_opt::kNoGpu;
  expect_history_on(*device, simulated(streamed_job()), reduce_in_memory);
}

}  // namespace
}  // namespace shoal::sim
