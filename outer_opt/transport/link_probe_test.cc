// Measuring lines that are known: emulated ones, no line at all, nodes that are busy or gone.
#include "outer_opt/transport/link_probe.h"

#include <future>

#include <gtest/gtest.h>

#include "outer_opt/transport/peer_node.h"
#include "wire/emulated_line.h"

namespace shoal::outer_opt {
namespace {

std::unique_ptr<PeerNode> node_over(const char* line) {
  PeerNodeOptions options;
  if (line != nullptr) {
    options.line = std::make_shared<wire::EmulatedLine>(parse_link(line).value());
  }
  auto node = PeerNode::start(options);
  EXPECT_TRUE(node.ok());
  return std::move(node).value();
}

PeerAddress at(const PeerNode& node, std::uint64_t replica) {
  return {ReplicaId(replica), node.address()};
}

// Until as many peers are known as were asked for, for at most ten seconds.
std::vector<LinkEstimate> await_links(PeerNode& node, std::size_t count) {
  std::vector<LinkEstimate> found;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (found.size() < count && std::chrono::steady_clock::now() < deadline) {
    for (const LinkEstimate& link : node.take_links()) found.push_back(link);
    std::promise<void>().get_future().wait_for(std::chrono::milliseconds(20));
  }
  return found;
}

TEST(LinkProbe, FindsTheSlowerEndOfEachDirection) {
  const auto fast = node_over("up=8mbit,down=3200kbit,rtt=20ms");
  const auto slow = node_over("up=1600kbit,down=4mbit,rtt=20ms");
  fast->measure(ReplicaId(1), {at(*slow, 2)});
  const auto found = await_links(*fast, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].peer, ReplicaId(2));
  EXPECT_TRUE(found[0].reached);
  EXPECT_GT(found[0].round_trip, milliseconds(19));
  EXPECT_LT(found[0].round_trip, milliseconds(500));
  EXPECT_GT(found[0].to_per_s, 0.25e6);  // 4 Mbit/s are 0.5e6, of which a busy machine takes some
  EXPECT_LT(found[0].to_per_s, 0.65e6);
  EXPECT_GT(found[0].from_per_s, 0.1e6);  // 1.6 Mbit/s
  EXPECT_LT(found[0].from_per_s, 0.26e6);
}

TEST(LinkProbe, TwoThatMeasureEachOtherBothGetTheirTurn) {
  const auto one = node_over(nullptr), two = node_over(nullptr);
  one->measure(ReplicaId(1), {at(*two, 2)});
  two->measure(ReplicaId(2), {at(*one, 1)});
  EXPECT_EQ(await_links(*one, 1).size(), 1u);
  EXPECT_EQ(await_links(*two, 1).size(), 1u);
}

TEST(LinkProbe, WhoDoesNotAnswerIsNotReached) {
  const auto here = node_over(nullptr);
  auto gone = node_over(nullptr);
  const PeerAddress address = at(*gone, 3);
  gone.reset();
  here->measure(ReplicaId(1), {address});
  const auto found = await_links(*here, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], (LinkEstimate{ReplicaId(3), {}, 0, 0, false, PeerWay::kUnreachable}));
}

TEST(ProbeGate, OneAtATimeAndNoneBesideAReduce) {
  ProbeGate gate;
  EXPECT_TRUE(gate.enter());
  EXPECT_FALSE(gate.enter());
  gate.begin_reduce();
  gate.leave();
  EXPECT_FALSE(gate.enter());
  gate.end_reduce();
  EXPECT_TRUE(gate.enter());
}

}  // namespace
}  // namespace shoal::outer_opt
