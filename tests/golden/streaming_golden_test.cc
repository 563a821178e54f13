// The histories of streaming_history.h, without and with eager updates, whose numbers must not
// change: compared with streaming.txt and eager.txt, and reduced again by real peers over sockets,
// with vectors on the host and on devices: the same bits, round for round. SHOAL_REWRITE_GOLDENS=1
// rewrites them.
#include <cstdlib>
#include <fstream>
#include <future>
#include <sstream>

#include <gtest/gtest.h>

#include "outer_opt/cuda/accelerator_test_util.h"
#include "outer_opt/cuda/gpu_test_util.h"
#include "outer_opt/transport/peer_node.h"
#include "tests/golden/streaming_devices.h"

namespace shoal::sim {
namespace {

using namespace golden;

struct Peers {
  ReducePlan plan;
  std::vector<std::unique_ptr<outer_opt::PeerNode>> nodes;
};

Peers peers_of(const ReducePlan& plan) {
  Peers peers{plan, {}};
  peers.plan.frame_values = kFrameValues;
  for (ReduceMember& member : peers.plan.members) {
    auto node = outer_opt::PeerNode::start({});
    peers.nodes.push_back(std::move(node).value());
    member.address = peers.nodes.back()->address();
  }
  return peers;
}

// Calls reduce(member) for all members at the same time.
template <typename Reduce>
void reduce_all(std::size_t members, const Reduce& reduce) {
  std::vector<std::future<outer_opt::ReduceResult>> running;
  for (std::size_t i = 0; i < members; ++i) {
    running.push_back(std::async(std::launch::async, [&reduce, i] { return reduce(i); }));
  }
  for (auto& one : running) EXPECT_TRUE(one.get().ok);
}

// The average of each member of an attempt.
std::vector<std::vector<float>> reduced(const Attempt& attempt) {
  Peers peers = peers_of(attempt.plan);
  std::vector<std::vector<float>> averages(
      peers.nodes.size(), std::vector<float>(static_cast<std::size_t>(attempt.plan.value_count)));
  reduce_all(peers.nodes.size(), [&](std::size_t i) {
    const ReplicaId self = peers.plan.members[i].replica;
    return peers.nodes[i]->reduce(peers.plan, self, {attempt.inputs.at(self), {}}, averages[i], {});
  });
  return averages;
}

void reduce_on_devices(const ReducePlan& plan, const DevicesOfMembers& devices) {
  Peers peers = peers_of(plan);
  reduce_all(peers.nodes.size(), [&](std::size_t i) {
    const ReduceMember& member = peers.plan.members[i];
    auto session = devices[i]->make_session(peers.plan, member.replica, member.weight > 0);
    EXPECT_TRUE(session.ok());
    return peers.nodes[i]->reduce_with(std::move(*session), {});
  });
}

void take_step(const Step& step, std::span<const float> average, std::span<float> momentum,
               std::span<float> anchor) {
  for (const outer_opt::ValueRange& range : step.fragment) {
    const auto first = static_cast<std::size_t>(range.first);
    const auto count = static_cast<std::size_t>(range.count);
    outer_opt::nesterov_step(step.options, average.first(count), momentum.subspan(first, count),
                             anchor.subspan(first, count));
    average = average.subspan(count);
  }
}

void expect_real_peers_give_the_same(const JobSpec& spec) {
  const History history = simulated(spec);
  ASSERT_EQ(history.steps.size(), 12u);
  std::vector<float> anchor = history.steps.at(1).anchor_before;
  std::vector<float> momentum = history.steps.at(1).momentum_before;
  std::size_t alone = 0;
  for (const auto& [round, step] : history.steps) {
    const Attempt& attempt = history.attempts.at(round);
    alone += attempt.plan.members.size() == 1 ? 1 : 0;
    const auto averages = reduced(attempt);
    for (const auto& average : averages) EXPECT_TRUE(same_bits(average, step.average));
    take_step(step, averages.front(), momentum, anchor);
    EXPECT_TRUE(same_bits(anchor, step.anchor)) << "round " << round;
    EXPECT_TRUE(same_bits(momentum, step.momentum)) << "round " << round;
  }
  EXPECT_GT(alone, 0u) << "the failure left one member";
}

void expect_written_down(const JobSpec& spec, const std::string& name) {
  const std::string path = std::string(SHOAL_GOLDEN_DIR) + "/" + name + ".txt";
  const std::string now = history_text(simulated(spec));
  if (std::getenv("SHOAL_REWRITE_GOLDENS") != nullptr) std::ofstream(path) << now;
  std::ostringstream written;
  written << std::ifstream(path).rdbuf();
  EXPECT_EQ(now, written.str());
}

TEST(StreamingGolden, RealPeersGiveTheBitsOfTheSimulator) {
  expect_real_peers_give_the_same(streamed_job());
  expect_real_peers_give_the_same(eager_job());
}

TEST(StreamingGolden, RealPeersWithDevicesGiveTheBitsOfTheSimulator) {
  outer_opt::HostAccelerator device;
  expect_history_on(device, simulated(streamed_job()), reduce_on_devices);
}

TEST(StreamingGolden, RealPeersWithAGpuGiveTheBitsOfTheSimulator) {
  const auto device = outer_opt::test_gpu();
  if (!device) GTEST_SKIP() << outer_opt::kNoGpu;
  expect_history_on(*device, simulated(streamed_job()), reduce_on_devices);
}

TEST(StreamingGolden, HistoriesAreThoseWrittenDown) {
  expect_written_down(streamed_job(), "streaming");
  expect_written_down(eager_job(), "eager");
}

}  // namespace
}  // namespace shoal::sim
