// Peers in processes of their own, one of which is killed or frozen in the middle of a reduce: the
// others end with equal digests before that, and the survivor that is watched names it in time. The
// processes are forked before this one starts threads, which do not survive a fork.
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <future>
#include <iostream>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "base/check.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/transport/peer_node.h"
#include "outer_opt/transport/peer_process_test_util.h"

namespace shoal::outer_opt {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

// From now on this process may not read the memory of others, as under a stricter container.
void forbid_reading_memory() {
  std::array filter = {
      sock_filter(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))),
      sock_filter(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 0, 1)),
      sock_filter(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)),
      sock_filter(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW))};
  const sock_fprog program = {filter.size(), filter.data()};
  SHOAL_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

struct Shape {
  Topology topology = Topology::kButterfly;
  CodecKind codec = CodecKind::kFp32;
  int members = 2;
  std::int64_t values = 16 << 20;
  Duration keepalive = seconds(1);
  bool reads_memory = true;  // the members but the first
};

using Address = std::array<char, 64>;

std::unique_ptr<PeerNode> start_node(const Shape& shape) {
  PeerNodeOptions options;
  options.keepalive = shape.keepalive;
  return PeerNode::start(options).value();
}

ReducePlan make_plan(const Shape& shape, const std::vector<Address>& addresses) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, 1};
  plan.attempt = 1;
  plan.topology = shape.topology;
  plan.codec = shape.codec;
  plan.value_count = shape.values;
  plan.time_limit = seconds(60);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    plan.members.push_back({ReplicaId(i + 1), addresses[i].data(), 1, 1, 0, 0});
  }
  if (shape.topology != Topology::kAllgather) {
    assign_parts(plan, std::vector<double>(addresses.size(), 1));
  }
  return plan;
}

// Member `index` of a shape: gives (index + 1) everywhere.
struct Member {
  Member(const Shape& shape, int index)
      : index(static_cast<std::size_t>(index)),
        node(start_node(shape)),
        input(static_cast<std::size_t>(shape.values), static_cast<float>(index + 1)),
        average(input.size()) {
    if (shape.codec != CodecKind::kSparse2) return;
    encoded.resize(sparse2_size(input.size()));
    sparse2_encode(input, encoded);
  }
  ReduceResult reduce(const ReducePlan& plan) {
    return node->reduce(plan, plan.members[index].replica, {input, encoded}, average, {});
  }
  std::size_t index = 0;
  std::unique_ptr<PeerNode> node;
  std::vector<float> input, average;
  std::vector<std::byte> encoded;
};

// Tells its address, hears everybody's, and reduces until one fails; tells the digest of each. Then
// it waits to be ended.
[[noreturn]] void live(const Shape& shape, int index, int in, int out) {
  if (!shape.reads_memory) forbid_reading_memory();
  Member member(shape, index);
  Address own{};
  std::strncpy(own.data(), member.node->address().c_str(), own.size() - 1);
  std::vector<Address> all(static_cast<std::size_t>(shape.members));
  if (!put(out, &own, 1) || !get(in, all.data(), all.size())) _exit(1);
  ReducePlan plan = make_plan(shape, all);
  for (bool good = true; good; ++plan.key.round) {
    const ReduceResult result = member.reduce(plan);
    if (!result.ok) std::cerr << "member " << index << ": " << result.error.detail << '\n';
    good = result.ok && put(out, &result.outcome.average, 1);
  }
  close(out);  // who waits for a digest does not wait forever
  for (;;) pause();
}

// All members of a shape but the first, which is this process.
struct Others {
  explicit Others(Shape shape) : shape(shape) {
    for (int i = 1; i < shape.members; ++i) {
      all.push_back(std::make_unique<Process>([=](int in, int out) { live(shape, i, in, out); }));
    }
  }
  Shape shape;
  std::vector<std::unique_ptr<Process>> all;
};

class PeerProcess : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    butterfly_ = std::make_unique<Others>(Shape{});
    frozen_ = std::make_unique<Others>(Shape{});
    ring_ =
        std::make_unique<Others>(Shape{Topology::kRing, CodecKind::kInt8, 4, 8 << 20, seconds(4)});
    gather_ = std::make_unique<Others>(
        Shape{Topology::kAllgather, CodecKind::kSparse2, 4, 8 << 20, seconds(4)});
    strict_ = std::make_unique<Others>(
        Shape{Topology::kButterfly, CodecKind::kFp32, 2, 1 << 20, seconds(4), false});
    open_ = std::make_unique<Others>(
        Shape{Topology::kButterfly, CodecKind::kFp32, 2, 1 << 20, seconds(4)});
  }
  static void TearDownTestSuite() {
    for (auto* group : {&butterfly_, &frozen_, &ring_, &gather_, &strict_, &open_}) group->reset();
  }

  struct First {  // this process among the others
    Member self;
    ReducePlan plan;
  };
  static First meet(const Others& others) {
    First first{Member(others.shape, 0), {}};
    const std::string own = first.self.node->address();
    std::vector<Address> addresses(others.all.size() + 1);
    std::strncpy(addresses[0].data(), own.c_str(), sizeof(Address) - 1);
    for (std::size_t i = 0; i < others.all.size(); ++i) {
      EXPECT_TRUE(get(others.all[i]->from, &addresses[i + 1], 1));
    }
    for (const auto& p : others.all) EXPECT_TRUE(put(p->to, addresses.data(), addresses.size()));
    first.plan = make_plan(others.shape, addresses);
    return first;
  }

  static void expect_equal_digests(const Others& others, First& first) {
    for (int i = 0; i < 2; ++i, ++first.plan.key.round) {
      const ReduceResult result = first.self.reduce(first.plan);
      ASSERT_TRUE(result.ok) << result.error.detail;
      for (const auto& process : others.all) {
        Digest digest;
        ASSERT_TRUE(get(process->from, &digest, 1));
        EXPECT_EQ(digest, result.outcome.average);
      }
    }
    const double mean = (others.shape.members + 1) / 2.0;
    EXPECT_NEAR(first.self.average[7], mean, 0.03);
  }

  // Round after round, until one fails.
  static ReduceResult reduce_until_it_fails(First& first) {
    for (;; ++first.plan.key.round) {
      ReduceResult result = first.self.reduce(first.plan);
      if (!result.ok) return result;
    }
  }

  // After two rounds that go well `victim` gets the signal, while more of them run: on a busy
  // machine one of those may still end well before the signal is there.
  static void expect_named(const Others& others, std::size_t victim, int signal) {
    First first = meet(others);
    expect_equal_digests(others, first);
    if (HasFatalFailure()) return;
    auto failing = std::async(std::launch::async, [&] { return reduce_until_it_fails(first); });
    kill(others.all[victim - 1]->pid, signal);
    ASSERT_EQ(failing.wait_for(kPatience), std::future_status::ready);
    const ReduceResult result = failing.get();
    EXPECT_EQ(result.error.failure, ReduceFailure::kPeerLost) << result.error.detail;
    EXPECT_EQ(result.error.lost, first.plan.members[victim].replica) << result.error.detail;
  }

  static inline std::unique_ptr<Others> butterfly_, frozen_, ring_, gather_, strict_, open_;
};

TEST_F(PeerProcess, KilledIsNamedAtOnce) { expect_named(*butterfly_, 1, SIGKILL); }
TEST_F(PeerProcess, FrozenIsNamedByTheKeepAlive) { expect_named(*frozen_, 1, SIGSTOP); }
// Not a neighbor of the survivor that is watched: the one between them says who it was.
TEST_F(PeerProcess, ARingOfFourAgreesAndNamesTheKilled) { expect_named(*ring_, 2, SIGKILL); }
TEST_F(PeerProcess, AnAllGatherOfFourAgrees) {
  First first = meet(*gather_);
  expect_equal_digests(*gather_, first);
}

// The first could read, the other could not: what goes one way only goes in messages.
TEST_F(PeerProcess, WhoMayNotReadMemoryTakesMessages) {
  First first = meet(*strict_);
  expect_equal_digests(*strict_, first);
  const ReduceResult result = first.self.reduce(first.plan);
  ASSERT_TRUE(result.ok) << result.error.detail;
  EXPECT_EQ(result.outcome.read_directly, Bytes(0));
}
TEST_F(PeerProcess, WhoMayReadsWhatTheOtherLends) {
  First first = meet(*open_);
  const ReduceResult result = first.self.reduce(first.plan);
  ASSERT_TRUE(result.ok) << result.error.detail;
  EXPECT_GT(result.outcome.read_directly, Bytes(2 << 20));
}

}  // namespace
}  // namespace shoal::outer_opt
