#include "coordinator/core/state/blocks.h"

#include <gtest/gtest.h>

#include "coordinator/core/pipelines_test_util.h"

namespace shoal::coordinator {
namespace {

constexpr Digest kShape{1, 2}, kOther{3, 4};

BlockTimes times(std::int64_t ms) { return {milliseconds(ms), {}, {}}; }

AgentRecord two_cards() {
  AgentRecord agent;
  agent.devices = {{.index = 0, .gflops = 100, .uuid = "GPU-a"},
                   {.index = 1, .gflops = 100, .uuid = "GPU-b"}};
  return agent;
}

TEST(Blocks, BelongToACardAndAShape) {
  AgentRecord agent = two_cards();
  keep_block(agent, agent.devices[0], kShape, times(10), {});
  EXPECT_EQ(block_of(agent, agent.devices[0], kShape), times(10));
  EXPECT_FALSE(block_of(agent, agent.devices[0], kOther));
  EXPECT_FALSE(block_of(agent, agent.devices[1], kShape));
  keep_block(agent, agent.devices[0], kShape, times(12), {});
  EXPECT_EQ(block_of(agent, agent.devices[0], kShape), times(12));
  EXPECT_EQ(agent.blocks.size(), 1u) << "the newer one takes its place";
}

TEST(Blocks, TheNewestOfEachDeviceStay) {
  AgentRecord agent = two_cards();
  keep_block(agent, agent.devices[1], kShape, times(5), {});
  for (std::uint64_t i = 1; i <= kBlocksPerDeviceMax + 1; ++i) {
    keep_block(agent, agent.devices[0], Digest{i, 0}, times(10), {});
  }
  EXPECT_EQ(agent.blocks.size(), kBlocksPerDeviceMax + 1);
  EXPECT_FALSE(block_of(agent, agent.devices[0], Digest{1, 0})) << "the oldest has gone";
  EXPECT_TRUE(block_of(agent, agent.devices[0], Digest{2, 0}));
  EXPECT_TRUE(block_of(agent, agent.devices[1], kShape)) << "that of the other device stays";
}

TEST(Blocks, FollowTheirCardToAnotherIndex) {
  AgentRecord agent = two_cards();
  keep_block(agent, agent.devices[1], kShape, times(10), {});
  const std::vector<Device> before = agent.devices;
  agent.devices = {{.index = 0, .gflops = 100, .uuid = "GPU-b"}};
  forget_stale_blocks(agent, before);
  EXPECT_EQ(block_of(agent, agent.devices[0], kShape), times(10));
  EXPECT_EQ(agent.blocks[0].device, 0);
}

TEST(Blocks, AreForgottenWithTheirCard) {
  AgentRecord agent = two_cards();
  keep_block(agent, agent.devices[1], kShape, times(10), {});
  const std::vector<Device> before = agent.devices;
  agent.devices.pop_back();
  forget_stale_blocks(agent, before);
  EXPECT_TRUE(agent.blocks.empty());
}

TEST(Blocks, AreForgottenWhenTheDeviceChangesItsSpeed) {
  AgentRecord agent = two_cards();
  keep_block(agent, agent.devices[0], kShape, times(10), {});
  keep_block(agent, agent.devices[1], kShape, times(10), {});
  const std::vector<Device> before = agent.devices;
  agent.devices[0].gflops = 81;  // as noise has it
  agent.devices[1].gflops = 50;
  forget_stale_blocks(agent, before);
  EXPECT_TRUE(block_of(agent, agent.devices[0], kShape));
  EXPECT_FALSE(block_of(agent, agent.devices[1], kShape));
}

TEST(Blocks, AProgramHasNoShape) {
  JobSpec spec = small_job();
  EXPECT_NE(shape_of(spec), Digest());
  spec.trainer.kind = TrainerKind::kPython;
  EXPECT_EQ(shape_of(spec), Digest());
}

// One that has measured compares with others only if these have, too.
TEST(Blocks, SpeedsOfReplicasCompare) {
  Piped rig(2);
  State state = rig.state();
  const ReplicaId first = live_replicas(state, JobId(1)).front();
  const Digest shape = shape_of(rig.job(JobId(1)).spec);
  EXPECT_EQ(speed_of(state, first), 10e9) << "the matrix product";
  AgentRecord& one = state.agents.at(state.replicas.at(first).agent);
  keep_block(one, one.devices[0], shape, times(10), {});
  EXPECT_EQ(speed_of(state, first), 10e9) << "the other has not measured";
  for (auto& [id, agent] : state.agents) {
    keep_block(agent, agent.devices[0], shape, times(id == one.id ? 10 : 20), {});
  }
  const ReplicaId second = live_replicas(state, JobId(1)).back();
  EXPECT_DOUBLE_EQ(speed_of(state, first), 2 * speed_of(state, second));
}

}  // namespace
}  // namespace shoal::coordinator
