// Reduces whose frames are entropy coded: the same bits with fewer bytes, and frames that lie.
#include <future>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/client_callback.h>
#include <gtest/gtest.h>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/transport/reduce_test_util.h"
#include "wire/peer_channel.h"

namespace shoal::outer_opt {
namespace {

TEST(ReduceEntropy, EntropyCodingChangesBytesAndNoBits) {
  for (const auto topology : {Topology::kButterfly, Topology::kRing}) {
    for (const CodecKind codec : kDenseCodecs) {
      Swarm coded(3, 100'000, codec, {}, topology, {.local_sockets = false}),
          plain(3, 100'000, codec, {}, topology, {.local_sockets = false});
      coded.plan.frame_values = plain.plan.frame_values = 8192;
      coded.plan.entropy_coding = true;
      const auto results = coded.reduce_all(), others = plain.reduce_all();
      expect_equal(coded, results);
      expect_equal(plain, others);
      EXPECT_EQ(results[0].outcome.average, others[0].outcome.average);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_LT(results[i].outcome.stats.sent.count(),
                  .97 * others[i].outcome.stats.sent.count());
      }
    }
  }
}

TEST(ReduceEntropy, WhatIsReadInMemoryIsNotEntropyCoded) {
  Swarm swarm(2, 100'000, CodecKind::kFp32);
  swarm.plan.entropy_coding = true;
  const auto results = swarm.reduce_all();
  expect_equal(swarm, results);
  EXPECT_EQ(results[0].outcome.read_directly.count(), 400'000);
}

// Plays the first member, whose frame says that it is entropy coded and is not.
class Garbler final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit Garbler(const ReducePlan& plan)
      : stub_(wire::dial_peer(plan.members[1].address, seconds(4), nullptr).channel) {
    const std::pair<const char*, std::int64_t> names[] = {{"shoal-replica", 1},
                                                          {"shoal-job", 1},
                                                          {"shoal-epoch", 0},
                                                          {"shoal-round", plan.key.round},
                                                          {"shoal-attempt", plan.attempt},
                                                          {"shoal-lane", 0},
                                                          {"shoal-lanes", 1}};
    for (const auto& [name, value] : names) context_.AddMetadata(name, std::to_string(value));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    FrameHeader header{FrameKind::kContribution,
                       CodecKind::kFp32,
                       1,
                       0,
                       plan.members[1].part_first,
                       static_cast<std::uint32_t>(plan.frame_values)};
    header.payload_size = 4 * header.count;
    header.entropy_coded = true;
    const auto front = encode_header(header);
    const grpc::Slice slices[] = {grpc::Slice(front.data(), front.size()),
                                  grpc::Slice(std::string(2000, 'x'))};
    message_ = grpc::ByteBuffer(slices, 2);
    stub_.PrepareBidiStreamingCall(&context_, "/shoal.v1.PeerService/Reduce", {}, this);
    StartWrite(&message_);
    StartCall();
  }
  void OnDone(const grpc::Status&) override { ended_.set_value(); }
  void wait() { ended_.get_future().get(); }

 private:
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer message_;
  std::promise<void> ended_;
};

TEST(ReduceEntropy, AFrameThatCannotBeExpandedIsBad) {
  Swarm swarm(2, 10'000, CodecKind::kFp32);
  auto running = swarm.start(1);
  Garbler garbler(swarm.plan);
  const ReduceResult result = running.get();
  garbler.wait();
  ASSERT_FALSE(result.ok);
  EXPECT_EQ(result.error.failure, ReduceFailure::kBadFrame) << result.error.detail;
  EXPECT_EQ(result.error.lost, ReplicaId(1));
  EXPECT_NE(result.error.detail.find("entropy coding"), std::string::npos) << result.error.detail;
}

}  // namespace
}  // namespace shoal::outer_opt
