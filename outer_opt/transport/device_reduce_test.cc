// Members with and without a device in one attempt over real connections: many threads of the
// transport work on the frames of one session at the same time. The device is the host
// (outer_opt/cuda/accelerator_test_util.h).
#include <future>

#include <gtest/gtest.h>

#include "base/prng.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/cuda/accelerator_test_util.h"
#include "outer_opt/cuda/device_vectors.h"
#include "outer_opt/transport/peer_node.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kValues = 100'003, kFrame = 1024;
constexpr std::size_t kMembers = 4;

std::vector<float> normal(std::uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(kValues);
  for (float& v : values) v = static_cast<float>(prng.normal());
  return values;
}

// The members with an even number have a device, unless nobody has.
class MixedNodes {
 public:
  explicit MixedNodes(bool devices) : vectors_(kMembers) {
    plan_.key = {JobId(1), 0, 3};
    plan_.value_count = kValues;
    plan_.time_limit = seconds(60);
    plan_.frame_values = kFrame;
    for (std::size_t i = 0; i < kMembers; ++i) {
      nodes_.push_back(std::move(*PeerNode::start({})));
      plan_.members.push_back(
          {ReplicaId(i + 1), nodes_[i]->address(), 100.0 + static_cast<double>(i), 1, 0, 0});
      inputs_.push_back(normal(i + 1));
      if (devices && i % 2 == 0) vectors_[i] = on_device(inputs_[i]);
    }
    averages_.assign(kMembers, std::vector<float>(kValues));
    assign_parts(plan_, {1, 2.7, 1, 1});
  }

  // What all voted for.
  Digest reduce(CodecKind codec) {
    plan_.codec = codec;
    ++plan_.attempt;
    std::vector<std::future<ReduceResult>> running;
    for (std::size_t i = 0; i < kMembers; ++i) {
      running.push_back(std::async(std::launch::async, [this, i] { return reduce_at(i); }));
    }
    std::vector<Digest> votes;
    for (auto& one : running) {
      const ReduceResult result = one.get();
      EXPECT_TRUE(result.ok) << result.error.detail;
      votes.push_back(result.outcome.average);
      EXPECT_EQ(votes.back(), votes.front());
    }
    return votes.front();
  }

 private:
  // The pseudo-gradient is the anchor, because the local parameters are zeros.
  std::shared_ptr<DeviceVectors> on_device(const std::vector<float>& input) {
    auto vectors = std::move(*DeviceVectors::create(device_, kValues, 1));
    const std::vector<float> zeros(kValues);
    EXPECT_TRUE(vectors->load(input, {{"momentum", zeros}}));
    EXPECT_TRUE(vectors->take_pseudo_gradient(zeros.data(), {{0, kValues}}).ok());
    return vectors;
  }
  ReduceResult reduce_at(std::size_t i) {
    const ReplicaId self = plan_.members[i].replica;
    if (!vectors_[i]) return nodes_[i]->reduce(plan_, self, {inputs_[i], {}}, averages_[i], {});
    auto session = vectors_[i]->make_session(plan_, self, true);
    EXPECT_TRUE(session.ok());
    return nodes_[i]->reduce_with(std::move(*session), {});
  }

  HostAccelerator device_;
  ReducePlan plan_;
  std::vector<std::unique_ptr<PeerNode>> nodes_;
  std::vector<std::vector<float>> inputs_, averages_;
  std::vector<std::shared_ptr<DeviceVectors>> vectors_;
};

TEST(DeviceReduce, MembersWithADeviceVoteAsTheOthersDo) {
  MixedNodes mixed(true), host(false);
  for (const CodecKind codec : kDenseCodecs) {
    EXPECT_EQ(mixed.reduce(codec), host.reduce(codec)) << to_string(codec);
  }
}

// Lanes are kept from one attempt to the next.
TEST(DeviceReduce, AttemptAfterAttempt) {
  MixedNodes mixed(true);
  const Digest first = mixed.reduce(CodecKind::kInt8);
  for (int attempt = 0; attempt < 5; ++attempt) EXPECT_EQ(mixed.reduce(CodecKind::kInt8), first);
}

}  // namespace
}  // namespace shoal::outer_opt
