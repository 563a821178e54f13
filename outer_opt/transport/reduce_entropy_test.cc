// Reduces whose frames are entropy coded: the same bits with fewer bytes, and frames that lie.
#include <future>

#include <gtest/gtest.h>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/transport/reduce_link.h"
#include "outer_opt/transport/reduce_test_util.h"
#include "wire/stream/blocking_stream.h"

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

// A frame from the first member of the plan to the second that claims to be entropy coded, although
// its payload is not.
std::vector<std::byte> garbled_head(const ReducePlan& plan) {
  FrameHeader header{FrameKind::kContribution,
                     CodecKind::kFp32,
                     1,
                     0,
                     plan.members[1].part_first,
                     static_cast<std::uint32_t>(plan.frame_values)};
  header.payload_size = 4 * header.count;
  header.entropy_coded = true;
  const auto front = encode_header(header);
  return {front.begin(), front.end()};
}

TEST(ReduceEntropy, AFrameThatCannotBeExpandedIsBad) {
  Swarm swarm(2, 10'000, CodecKind::kFp32);
  auto running = swarm.start(1);
  const auto node = wire::stream::Node::start({.bind = ""}, nullptr).value();
  const auto pair =
      wire::stream::dial_and_wait(*node, {.address = swarm.nodes[1]->address()}).value();
  const auto stream = wire::stream::BlockingStream::open(
      *pair, to_purpose({ReplicaId(1), {swarm.plan.key, swarm.plan.attempt}, ""}), seconds(20));
  const auto body = std::make_shared<const std::vector<std::byte>>(2000, std::byte{'x'});
  ASSERT_TRUE(stream->write(garbled_head(swarm.plan), body, seconds(10)).ok());
  const ReduceResult result = running.get();
  ASSERT_FALSE(result.ok);
  EXPECT_EQ(result.error.failure, ReduceFailure::kBadFrame) << result.error.detail;
  EXPECT_EQ(result.error.lost, ReplicaId(1));
  EXPECT_NE(result.error.detail.find("entropy coding"), std::string::npos) << result.error.detail;
}

}  // namespace
}  // namespace shoal::outer_opt
