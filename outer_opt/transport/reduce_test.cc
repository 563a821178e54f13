// Several nodes in one process on loopback: equal bits, losses, cancellation, limits, early
// streams.
#include <chrono>
#include <functional>
#include <future>

#include <gtest/gtest.h>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/transport/kernel_bytes_test_util.h"
#include "outer_opt/transport/link_probe.h"
#include "outer_opt/transport/peer_node.h"
#include "outer_opt/transport/reduce_link.h"
#include "outer_opt/transport/reduce_test_util.h"
#include "wire/emulated_line.h"

namespace shoal::outer_opt {
namespace {

TEST(Reduce, AllMembersGetTheSameBits) {
  for (const CodecKind codec : kDenseCodecs) {
    for (const std::size_t n : {1u, 2u, 3u, 5u}) {
      Swarm swarm(n, 20'001, codec);
      const auto results = swarm.reduce_all();
      expect_equal(swarm, results);
      double exact = 0, weights = 0;
      for (std::size_t i = 0; i < n; ++i) {
        exact += swarm.plan.members[i].weight * swarm.inputs[i][7];
        weights += swarm.plan.members[i].weight;
      }
      // Rounded on both ways; no value is beyond 5.
      const double tolerance = 1e-6 + 2 * 5 * shoal::outer_opt::codec(codec).error_bound();
      EXPECT_NEAR(swarm.averages[0][7], exact / weights, tolerance);
    }
  }
}

TEST(Reduce, ARingGivesTheSameBits) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kInt8}) {
    for (const std::size_t n : {1u, 2u, 3u, 5u}) {
      Swarm swarm(n, 20'001, codec, {}, Topology::kRing);
      if (n == 5) swarm.plan.members[2].weight = 0;
      expect_equal(swarm, swarm.reduce_all());
      double exact = 0, weights = 0;
      for (std::size_t i = 0; i < n; ++i) {
        exact += swarm.plan.members[i].weight * swarm.inputs[i][7];
        weights += swarm.plan.members[i].weight;
      }
      const double hops = static_cast<double>(n), bound = outer_opt::codec(codec).error_bound();
      EXPECT_NEAR(swarm.averages[0][7], exact / weights, 1e-6 + hops * 5 * bound);
    }
  }
}

TEST(Reduce, AnAllGatherGivesTheSameBits) {
  for (const std::size_t n : {1u, 2u, 4u}) {
    Swarm swarm(n, 20'001, CodecKind::kSparse2, {}, Topology::kAllgather);
    if (n == 4) swarm.plan.members[2].weight = 0;
    const auto results = swarm.reduce_all();
    expect_equal(swarm, results);
    std::size_t sent = 0;
    for (const float value : swarm.averages[0]) sent += value != 0 ? 1 : 0;
    EXPECT_GE(sent, 5 * 64u);
  }
}

// Nobody waits for averages here, so a sender could end before its memory has been read.
TEST(Reduce, MembersOfAnAllGatherStayUntilTheirMemoryIsRead) {
  Swarm swarm(4, 40 * kSparseFrame, CodecKind::kSparse2, {}, Topology::kAllgather);
  swarm.plan.time_limit = seconds(10);
  for (int round = 0; round < 60; ++round, ++swarm.plan.key.round) {
    const auto results = swarm.reduce_all();
    ASSERT_NO_FATAL_FAILURE(expect_equal(swarm, results)) << "round " << round;
    EXPECT_GT(results[0].outcome.read_directly, Bytes(0));
  }
}

TEST(Reduce, ARingWithAStrangerInItSaysWho) {
  Swarm swarm(3, 20'001, CodecKind::kInt8, {}, Topology::kRing);
  swarm.plan.members[2].address.clear();
  const ReduceResult result = swarm.reduce(1);
  ASSERT_FALSE(result.ok);
  EXPECT_EQ(result.error.failure, ReduceFailure::kPlanMismatch);
  EXPECT_EQ(result.error.lost, swarm.plan.members[2].replica);
}

TEST(Reduce, ConnectionsServeRoundAfterRound) {
  Swarm swarm(3, 5000, CodecKind::kInt8);
  for (int round = 1; round <= 5; ++round) {
    swarm.plan.key.round = round;
    expect_equal(swarm, swarm.reduce_all());
  }
}

TEST(Reduce, BytesAreThoseOfTheSocketsToHalfAPercent) {
  Swarm swarm(2, 1'000'000, CodecKind::kFp32, {}, Topology::kButterfly, {.local_sockets = false});
  const auto results = swarm.reduce_all();
  expect_equal(swarm, results);
  // The first node has accepted half of what it moved; the other half is on what it dialed.
  const ReduceStats& stats = results[0].outcome.stats;
  const auto kernel = static_cast<double>(kernel_bytes(swarm.nodes[0]->address()));
  EXPECT_NEAR(static_cast<double>((stats.sent + stats.received).count()) / 2, kernel, kernel / 200);
  EXPECT_GT(kernel, 4'000'000);
  EXPECT_GT(stats.reduce_s, 0);
}

// With int8 contributions are encoded into their messages; what is averaged lies still.
TEST(Reduce, MembersOfOneHostReadEachOthersMemory) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kInt8, CodecKind::kSparse2}) {
    const bool sparse = codec == CodecKind::kSparse2;
    const auto topology = sparse ? Topology::kAllgather : Topology::kButterfly;
    Swarm swarm(3, 100'000, codec, {}, topology),
        by_message(3, 100'000, codec, {}, topology, {false});
    const auto results = swarm.reduce_all();
    expect_equal(swarm, results);
    const auto others = by_message.reduce_all();
    expect_equal(by_message, others);
    EXPECT_EQ(results[0].outcome.average, others[0].outcome.average);
    // fp32: two of three parts come, and the own one twice; int8: the two; sparse2: two encodings.
    const double least = sparse                      ? 2.0 * sparse2_size(100'000)
                         : codec == CodecKind::kFp32 ? 4 * 4.0 / 3 * 100'000
                                                     : 2.0 / 3 * 100'000;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_GE(static_cast<double>(results[i].outcome.read_directly.count()), least - 100);
      EXPECT_LE(results[i].outcome.read_directly, results[i].outcome.stats.received);
      EXPECT_EQ(others[i].outcome.read_directly, Bytes(0));
      EXPECT_NEAR(static_cast<double>(results[i].outcome.stats.received.count()),
                  static_cast<double>(others[i].outcome.stats.received.count()), 20'000);
    }
  }
}

TEST(Reduce, NobodyReadsMemoryPastAnEmulatedLine) {
  Swarm swarm(2, 10'000, CodecKind::kFp32, {}, Topology::kButterfly, {true, "rtt=2ms"});
  for (const ReduceResult& result : swarm.reduce_all()) {
    ASSERT_TRUE(result.ok) << result.error.detail;
    EXPECT_EQ(result.outcome.read_directly, Bytes(0));
  }
}

TEST(Reduce, BytesOfOtherTrafficAreNotItsOwn) {
  Swarm swarm(2, 100'000, CodecKind::kFp32);
  const std::vector<float> momentum(500'000, 1.0f);
  swarm.nodes[0]->set_momentum_handler(
      [&](ReplicaId, const RoundKey&, const ValueRange&, const auto& serve) {
        serve(std::span<const float>(momentum));
        return Status();
      });
  std::vector<float> copy(momentum.size());
  auto reduced = swarm.start(0);
  const MomentumHolder holder{ReplicaId(1), swarm.nodes[0]->address(), 0, 500'000};
  ASSERT_TRUE(swarm.nodes[1]->fetch_momentum(holder, swarm.plan.key, copy, {}).ok());
  const auto other = swarm.reduce(1);
  expect_equal(swarm, {reduced.get(), other});
  EXPECT_LT(other.outcome.stats.received.count(), 450'000);  // 400,000 without headers
}

// Three members, 400 KB each at 10 Mbit/s: each sends 4/3 of it, which takes 0.43 s.
TEST(Reduce, OverALineItTakesWhatTheLineGives) {
  for (const bool local_sockets : {false, true}) {
    Swarm swarm(3, 100'000, CodecKind::kFp32, {}, Topology::kButterfly,
                {local_sockets, "up=10mbit,down=10mbit,rtt=20ms,jitter=1ms"});
    const auto results = swarm.reduce_all();
    expect_equal(swarm, results);
    EXPECT_GT(results[0].outcome.stats.reduce_s, 0.43);
    EXPECT_LT(results[0].outcome.stats.reduce_s, 2);  // on a busy machine
  }
}

// Until something is known of the line to the other member; for at most 20 s.
bool measures(PeerNode& node, ReplicaId self, const ReduceMember& other) {
  node.measure(self, {{other.replica, other.address}});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    for (const LinkEstimate& link : node.take_links()) {
      if (link.to_per_s > 0) return true;
    }
    std::promise<void>().get_future().wait_for(std::chrono::milliseconds(20));
  }
  return false;
}

// 8 MB/s over 600 ms, say, are three connections each way. One of the two measures; the other one
// learns from it.
TEST(Reduce, ALongFatLineHasSeveralConnections) {
  Swarm swarm(2, 300'001, CodecKind::kInt8, {}, Topology::kButterfly, {false, "rtt=600ms"});
  ASSERT_TRUE(measures(*swarm.nodes[0], ReplicaId(1), swarm.plan.members[1]));
  for (swarm.plan.key.round = 1; swarm.plan.key.round <= 2; ++swarm.plan.key.round) {
    const auto results = swarm.reduce_all();
    expect_equal(swarm, results);
    EXPECT_GE(results[0].outcome.connections, 4u);
    EXPECT_GE(results[1].outcome.connections, 4u);
  }
  swarm.nodes[1].reset();  // however many there are, its loss is named
  const ReduceResult alone = swarm.reduce(0);
  EXPECT_EQ(alone.error.failure, ReduceFailure::kPeerLost) << alone.error.detail;
  EXPECT_EQ(alone.error.lost, ReplicaId(2)) << alone.error.detail;
}

// Round trips of a small message over `line`, while `busy` runs; the longest.
double longest_echo(std::shared_ptr<wire::EmulatedLine> line, const std::string& address,
                    const std::future<ReduceResult>& busy) {
  wire::stream::NodeOptions options{.bind = ""};
  options.line = std::move(line);
  const auto node = wire::stream::Node::start(options, nullptr).value();
  const auto pair = wire::stream::dial_and_wait(*node, {.address = address}).value();
  const auto echo = wire::stream::BlockingStream::open(*pair, kProbePurpose, seconds(60));
  double longest = 0;
  while (busy.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout) {
    const auto before = std::chrono::steady_clock::now();
    EXPECT_TRUE(echo->write(wire::stream::to_bytes("echo"), nullptr, seconds(10)).ok());
    EXPECT_TRUE(echo->read(seconds(10)).ok());
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - before;
    longest = std::max(longest, spent.count());
  }
  return longest;
}

// 4 MB each way take 3.2 s, in which no connection may be taken for dead, nor a heartbeat beside
// them be late.
TEST(Reduce, HeartbeatsPassWhileItFillsASlowLine) {
  Swarm swarm(2, 1'000'000, CodecKind::kFp32, {}, Topology::kButterfly,
              {false, "up=10mbit,down=10mbit,rtt=20ms", seconds(1)});
  const auto beside = std::make_shared<wire::EmulatedLine>(parse_link("rtt=20ms").value());
  auto first = swarm.start(0);
  const auto second = swarm.start(1);
  const double longest_s = longest_echo(beside, swarm.nodes[1]->address(), second);
  EXPECT_LT(longest_s, 0.5);
  EXPECT_GT(longest_s, 0.02);
  const ReduceResult result = first.get();
  EXPECT_TRUE(result.ok) << result.error.detail;
  EXPECT_GT(result.outcome.stats.reduce_s, 3.1);
}

TEST(Reduce, WeightlessAndUndialableMembersTakePart) {
  Swarm swarm(4, 10'000, CodecKind::kInt8, {1, 2, 0, 0});
  swarm.plan.members[2].address.clear();
  swarm.plan.members[3].weight = 0;
  expect_equal(swarm, swarm.reduce_all());
}

TEST(Reduce, NobodyContributes) {
  Swarm swarm(2, 1000, CodecKind::kInt8);
  for (auto& member : swarm.plan.members) member.weight = 0;
  expect_equal(swarm, swarm.reduce_all());
  EXPECT_EQ(swarm.averages[1], std::vector<float>(1000, 0.0f));
}

TEST(Reduce, StreamsThatComeEarlyWait) {
  Swarm swarm(3, 5000, CodecKind::kFp32);
  auto first = swarm.start(0);
  auto second = swarm.start(1);
  EXPECT_EQ(first.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  const ReduceResult third = swarm.reduce(2);
  expect_equal(swarm, {first.get(), second.get(), third});
}

// A purpose comes from outside: a number that lacks, is none, or makes no sense.
TEST(Reduce, AStreamThatNamesNoAttemptIsRefused) {
  const auto node = PeerNode::start({}).value();
  const auto asker = wire::stream::Node::start({.bind = ""}, nullptr).value();
  const auto pair = wire::stream::dial_and_wait(*asker, {.address = node->address()}).value();
  for (const char* purpose :
       {"", "reduce", "reduce 1 1 0 1", "reduce 1 1 0 1 1x", "reduce a 1 0 1 1",
        "reduce 1 1 0 1 1 token more", "reduce  1 1 0 1 1", "produce 1 1 0 1 1",
        "reduce 1 1 0 99999999999999999999 1"}) {
    const auto stream = wire::stream::BlockingStream::open(*pair, purpose, seconds(10));
    const auto refused = stream->read(seconds(10));
    ASSERT_FALSE(refused.ok()) << purpose;
    EXPECT_EQ(refused.error().code, Code::kNotFound) << purpose;
  }
}

TEST(Reduce, WhoIsNoMemberIsRefused) {
  Swarm swarm(2, 5000, CodecKind::kFp32);
  auto running = swarm.start(0);
  const auto stranger = wire::stream::Node::start({.bind = ""}, nullptr).value();
  const auto pair =
      wire::stream::dial_and_wait(*stranger, {.address = swarm.nodes[0]->address()}).value();
  for (const std::uint64_t name : {7u, 1u}) {  // nobody, and the node itself
    const auto stream = wire::stream::BlockingStream::open(
        *pair, to_purpose({ReplicaId(name), {swarm.plan.key, swarm.plan.attempt}, ""}),
        seconds(10));
    const auto refused = stream->read(seconds(10));
    ASSERT_FALSE(refused.ok());
    const StreamEnd end = parse_cancel(refused.error());
    EXPECT_NE(end.detail.find("is not a member"), std::string::npos) << end.detail;
  }
  const ReduceResult second = swarm.reduce(1);
  expect_equal(swarm, {running.get(), second});
}

// The oldest attempt of a peer is dropped, whether its round is the lower or the higher one.
TEST(Reduce, TooManyEarlyAttemptsGiveWay) {
  for (const auto& [first_round, second_round] : {std::pair(3, 4), std::pair(4, 3)}) {
    PeerNodeOptions options;
    options.early.per_peer = 1;
    auto narrow = PeerNode::start(options);
    ASSERT_TRUE(narrow.ok());
    Swarm older(2, 5000, CodecKind::kFp32), newer(2, 5000, CodecKind::kFp32);
    older.plan.key.round = first_round;
    newer.plan.key.round = second_round;
    older.plan.members[1].address = newer.plan.members[1].address = (*narrow)->address();
    auto old = older.start(0);
    ASSERT_EQ(old.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
    std::stop_source stop;
    auto fresh = newer.start(0, stop.get_token());
    EXPECT_EQ(old.get().error.failure, ReduceFailure::kPeerLost);
    EXPECT_EQ(fresh.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    stop.request_stop();
    EXPECT_FALSE(fresh.get().ok);
  }
}

TEST(Reduce, DestroyedNodeIsNamed) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kInt8}) {
    Swarm swarm(3, 4'000'000, codec);
    std::vector<std::future<ReduceResult>> running;
    for (std::size_t i = 0; i < 2; ++i)
      running.push_back(swarm.start(i));  // they wait for the third
    EXPECT_EQ(running[0].wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
    const auto before = std::chrono::steady_clock::now();
    swarm.nodes[2].reset();
    for (auto& r : running) {
      const ReduceResult result = r.get();
      ASSERT_FALSE(result.ok);
      EXPECT_EQ(result.error.failure, ReduceFailure::kPeerLost) << result.error.detail;
      EXPECT_EQ(result.error.lost, ReplicaId(3)) << result.error.detail;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
    // The two continue without it.
    ReducePlan next = swarm.plan;
    next.members.pop_back();
    next.attempt = 2;
    assign_parts(next, {1, 1});
    swarm.plan = next;
    swarm.nodes.pop_back();
    const auto results = swarm.reduce_all();
    for (const auto& result : results) EXPECT_TRUE(result.ok) << result.error.detail;
    EXPECT_EQ(swarm.averages[0], swarm.averages[1]);
  }
}

// A member that is told to stop is no dead process: streams end without a reason, and a survivor
// may take another survivor, which gave up because of it, for the cause. But nobody hangs and
// nobody blames itself.
TEST(Reduce, MemberThatGivesUpInTheMiddleEndsTheAttempt) {
  for (const int delay_ms : {0, 5, 20, 40}) {
    Swarm swarm(3, 3'000'000, CodecKind::kFp32);
    std::stop_source stop;
    std::vector<std::future<ReduceResult>> running;
    for (std::size_t i = 0; i < 2; ++i) running.push_back(swarm.start(i));
    auto third = swarm.start(2, stop.get_token());
    third.wait_for(std::chrono::milliseconds(delay_ms));
    stop.request_stop();
    third.get();
    for (std::size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(running[i].wait_for(std::chrono::seconds(10)), std::future_status::ready);
      const ReduceResult result = running[i].get();
      if (result.ok) continue;  // the third had given everything
      EXPECT_EQ(result.error.failure, ReduceFailure::kPeerLost) << result.error.detail;
      EXPECT_NE(result.error.lost, swarm.plan.members[i].replica) << result.error.detail;
    }
  }
}

TEST(Reduce, NobodyListens) {
  Swarm swarm(2, 100, CodecKind::kFp32);
  swarm.nodes[1].reset();
  const ReduceResult result = swarm.reduce(0);
  EXPECT_EQ(result.error.failure, ReduceFailure::kPeerLost);
  EXPECT_EQ(result.error.lost, ReplicaId(2));
}

TEST(Reduce, CancelledByItsCaller) {
  Swarm swarm(2, 5000, CodecKind::kInt8);
  std::stop_source stop;
  auto running = swarm.start(0, stop.get_token());
  EXPECT_EQ(running.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  stop.request_stop();
  ASSERT_EQ(running.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_FALSE(running.get().ok);
}

TEST(Reduce, TimeLimitNamesTheSlowest) {
  Swarm swarm(3, 5000, CodecKind::kInt8);
  swarm.plan.time_limit = milliseconds(700);
  auto one = swarm.start(0), two = swarm.start(1);  // the third never comes
  const ReduceResult result = one.get();
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.error.lost, ReplicaId(3)) << result.error.detail;
  EXPECT_FALSE(two.get().ok);
}

TEST(Reduce, TheOutcomeNamesWhomThePartIsWithout) {
  Swarm swarm(3, 5000, CodecKind::kInt8);
  assign_parts(swarm.plan, {1, 1, 0});
  swarm.plan.time_limit = milliseconds(1500);
  auto one = swarm.start(0), two = swarm.start(1);  // the third never comes
  for (auto* running : {&one, &two}) {
    const ReduceResult result = running->get();
    ASSERT_TRUE(result.ok) << result.error.detail;
    EXPECT_EQ(result.outcome.seen.excluded, std::vector{ReplicaId(3)});
  }
}

// The third misses the second, whom it dials nobody to ask about; the fourth hears it from the
// third, the first from the fourth.
TEST(Reduce, ARingHearsFromBeforeWhoIsMissing) {
  Swarm swarm(4, 5000, CodecKind::kFp32, {}, Topology::kRing);
  swarm.plan.time_limit = milliseconds(2500);
  std::vector<std::future<ReduceResult>> running;
  for (const std::size_t i : {0, 2, 3}) running.push_back(swarm.start(i));
  for (auto& r : running) {
    const ReduceResult result = r.get();
    ASSERT_FALSE(result.ok);
    EXPECT_EQ(result.error.failure, ReduceFailure::kPeerLost) << result.error.detail;
    EXPECT_EQ(result.error.lost, ReplicaId(2)) << result.error.detail;
  }
}

TEST(Reduce, PlansThatDoNotFitAreRefused) {
  Swarm swarm(2, 100, CodecKind::kFp32);
  swarm.plan.members[1].address.clear();
  EXPECT_EQ(swarm.reduce(0).error.failure, ReduceFailure::kPlanMismatch);
  swarm.plan.frame_values = 0;
  EXPECT_EQ(swarm.reduce(0).error.failure, ReduceFailure::kPlanMismatch);
  swarm.plan.frame_values = kFrame;
  swarm.plan.value_count = 99;
  EXPECT_EQ(swarm.reduce(0).error.failure, ReduceFailure::kPlanMismatch);
}

// Both would run forever, or sum what does not belong together, if one believed the other.
TEST(Reduce, MembersThatDisagreeAboutThePlanFail) {
  const std::function<void(ReducePlan&)> changes[] = {
      [](ReducePlan& p) {
        p.value_count -= 8, assign_parts(p, {1, 1});
      },
      [](ReducePlan& p) { p.codec = CodecKind::kInt8; },
      [](ReducePlan& p) { p.frame_values /= 2; },
      [](ReducePlan& p) {
        assign_parts(p, {1, 3});
      },
  };
  for (const auto& change : changes) {
    Swarm swarm(2, 100'000, CodecKind::kFp32);
    auto one = swarm.start(0);
    ReducePlan other = swarm.plan;
    change(other);
    const auto values = static_cast<std::size_t>(other.value_count);
    const ReduceResult two =
        swarm.nodes[1]->reduce(other, ReplicaId(2), {std::span(swarm.inputs[1]).first(values), {}},
                               std::span(swarm.averages[1]).first(values), {});
    ASSERT_EQ(one.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    const ReduceResult first = one.get();
    EXPECT_FALSE(first.ok);
    EXPECT_FALSE(two.ok);
    const bool said = first.error.failure == ReduceFailure::kBadFrame ||
                      two.error.failure == ReduceFailure::kBadFrame;
    EXPECT_TRUE(said) << first.error.detail << "; " << two.error.detail;
  }
}

TEST(Reduce, FramesOfAnOldAttemptAreInNoOther) {
  Swarm swarm(2, 100'000, CodecKind::kFp32);
  expect_equal(swarm, swarm.reduce_all());
  const float right = swarm.averages[0][7];
  const std::vector<float> strange(100'000, 1e6f);
  std::vector<float> nothing(strange.size());
  ReducePlan old = swarm.plan;
  old.time_limit = milliseconds(1500);
  auto late = std::async(std::launch::async, [&] {
    return swarm.nodes[1]->reduce(old, ReplicaId(2), {strange, {}}, nothing, {});
  });
  swarm.plan.attempt = 2;
  expect_equal(swarm, swarm.reduce_all());
  EXPECT_EQ(swarm.averages[0][7], right);
  EXPECT_FALSE(late.get().ok);
}

TEST(Start, RefusesWhatCannotWork) {
  const auto refused = [](auto change) {
    PeerNodeOptions options;
    change(options);
    return !PeerNode::start(options).ok();
  };
  const auto node = start_node();
  EXPECT_TRUE(refused([](PeerNodeOptions& o) { o.bind = "nonsense"; }));
  EXPECT_TRUE(refused([](PeerNodeOptions& o) { o.bind = "0.0.0.0:0"; }));
  EXPECT_TRUE(refused([&](PeerNodeOptions& o) { o.bind = node->address(); }));
}

}  // namespace
}  // namespace shoal::outer_opt
