// Several nodes in one process on loopback that average normal values. For tests.
#pragma once

#include <cmath>
#include <cstring>
#include <future>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/transport/peer_node.h"
#include "wire/emulated_line.h"

namespace shoal::outer_opt {

inline constexpr std::int64_t kFrame = 512, kSparseFrame = 4096;

// What the nodes of a swarm have in common.
struct NodeKind {
  bool local_sockets = true;
  const char* link = nullptr;  // an emulated line
  Duration keepalive = seconds(4);
  bool certificates = false;
};

inline std::unique_ptr<PeerNode> start_node(NodeKind kind = {}) {
  PeerNodeOptions options;
  if (kind.link != nullptr) {
    options.line = std::make_shared<wire::EmulatedLine>(parse_link(kind.link).value());
  }
  options.local_sockets = kind.local_sockets;
  options.keepalive = kind.keepalive;
  options.certificates = kind.certificates;
  auto node = PeerNode::start(options);
  EXPECT_TRUE(node.ok());
  return std::move(node).value();
}

struct Swarm {
  explicit Swarm(std::size_t n, std::int64_t values, CodecKind codec,
                 std::vector<double> shares = {}, Topology topology = Topology::kButterfly,
                 NodeKind kind = {}) {
    Prng prng(11);
    plan.key = {JobId(1), 0, 3};
    plan.attempt = 1;
    plan.topology = topology;
    plan.codec = codec;
    plan.value_count = values;
    plan.time_limit = seconds(30);
    plan.frame_values = codec == CodecKind::kSparse2 ? kSparseFrame : kFrame;
    for (std::size_t i = 0; i < n; ++i) {
      nodes.push_back(start_node(kind));
      plan.members.push_back(
          {ReplicaId(i + 1), nodes[i]->address(), 100.0 + static_cast<double>(i), 1});
      inputs.emplace_back(values);
      for (float& v : inputs[i]) v = static_cast<float>(prng.normal());
      if (codec == CodecKind::kSparse2) {
        encoded.emplace_back(sparse2_size(inputs[i].size()));
        sparse2_encode(inputs[i], encoded[i]);
      }
    }
    averages.assign(n, std::vector<float>(values, NAN));
    if (shares.empty()) shares.assign(n, 1);
    if (topology != Topology::kAllgather) assign_parts(plan, shares);
  }

  ReduceResult reduce(std::size_t i, std::stop_token stop = {}) {
    ReduceInput input;
    if (plan.members[i].weight > 0) input.pseudo_gradient = inputs[i];
    if (plan.members[i].weight > 0 && !encoded.empty()) input.encoded = encoded[i];
    return nodes[i]->reduce(plan, plan.members[i].replica, input, averages[i], stop);
  }
  std::future<ReduceResult> start(std::size_t i, std::stop_token stop = {}) {
    return std::async(std::launch::async, [this, i, stop] { return reduce(i, stop); });
  }
  std::vector<ReduceResult> reduce_all() {
    std::vector<std::future<ReduceResult>> running;
    for (std::size_t i = 0; i < nodes.size(); ++i) running.push_back(start(i));
    std::vector<ReduceResult> results;
    for (auto& r : running) results.push_back(r.get());
    return results;
  }

  ReducePlan plan;
  std::vector<std::unique_ptr<PeerNode>> nodes;
  std::vector<std::vector<float>> inputs, averages;
  std::vector<std::vector<std::byte>> encoded;  // sparse2
};

inline void expect_equal(const Swarm& swarm, const std::vector<ReduceResult>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(results[i].ok) << i << ": " << results[i].error.detail;
    EXPECT_EQ(results[i].outcome.average, results[0].outcome.average);
    EXPECT_EQ(std::memcmp(swarm.averages[i].data(), swarm.averages[0].data(),
                          sizeof(float) * swarm.averages[0].size()),
              0);
  }
}

}  // namespace shoal::outer_opt
