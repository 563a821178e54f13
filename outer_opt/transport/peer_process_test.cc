// Peers in processes of their own that are killed or frozen in the middle of a reduce: the survivor
// names them in time. The processes are forked before this one starts gRPC, which does not survive
// a fork.
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <future>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "outer_opt/transport/peer_node.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kValues = 16 << 20;
constexpr ReplicaId kSurvivor{1}, kVictim{2};
constexpr auto kPatience = std::chrono::seconds(10);

PeerNodeOptions options() {
  PeerNodeOptions o;
  o.keepalive = seconds(1);
  return o;
}

ReducePlan plan(const std::string& survivor, const std::string& victim) {
  ReducePlan p;
  p.key = {JobId(1), 0, 1};
  p.attempt = 1;
  p.codec = CodecKind::kFp32;
  p.value_count = kValues;
  p.time_limit = seconds(60);
  p.members = {{kSurvivor, survivor, 1, 1, 0, 0}, {kVictim, victim, 1, 1, 0, 0}};
  assign_parts(p, {1, 1});
  return p;
}

using Address = std::array<char, 64>;

// Tells its address, hears the survivor's, and reduces again and again until it is ended.
[[noreturn]] void live(int in, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto node = PeerNode::start(options()).value();
  Address own{}, survivor{};
  std::strncpy(own.data(), node->address().c_str(), own.size() - 1);
  if (write(out, own.data(), own.size()) != static_cast<ssize_t>(own.size())) _exit(1);
  if (read(in, survivor.data(), survivor.size()) != static_cast<ssize_t>(survivor.size())) _exit(1);
  ReducePlan p = plan(survivor.data(), node->address());
  const std::vector<float> input(kValues, 1.0f);
  std::vector<float> average(kValues);
  for (;; ++p.key.round) node->reduce(p, kVictim, {input, {}}, average, {});
}

struct Victim {
  Victim() {
    std::array<int, 2> down{}, up{};
    EXPECT_EQ(pipe(down.data()) + pipe(up.data()), 0);
    pid = fork();
    if (pid == 0) live(down[0], up[1]);
    to = down[1];
    from = up[0];
  }
  ~Victim() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(to);
    close(from);
  }
  std::string meet(const std::string& survivor) const {
    Address own{}, other{};
    std::strncpy(own.data(), survivor.c_str(), own.size() - 1);
    EXPECT_EQ(read(from, other.data(), other.size()), static_cast<ssize_t>(other.size()));
    EXPECT_EQ(write(to, own.data(), own.size()), static_cast<ssize_t>(own.size()));
    return other.data();
  }
  pid_t pid = 0;
  int to = -1, from = -1;
};

class PeerProcess : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (auto& victim : victims_) victim = std::make_unique<Victim>();
  }
  static void TearDownTestSuite() {
    for (auto& victim : victims_) victim.reset();
  }

  // Reduces with the victim round after round; in the third one, it gets the signal.
  static void expect_named(const Victim& victim, int signal) {
    const auto node = PeerNode::start(options()).value();
    ReducePlan p = plan(node->address(), victim.meet(node->address()));
    const std::vector<float> input(kValues, 2.0f);
    std::vector<float> average(kValues);
    const auto round = [&] { return node->reduce(p, kSurvivor, {input, {}}, average, {}); };
    for (int i = 0; i < 2; ++i, ++p.key.round) ASSERT_TRUE(round().ok);
    EXPECT_EQ(average[7], 1.5f);
    auto third = std::async(std::launch::async, round);
    kill(victim.pid, signal);
    ASSERT_EQ(third.wait_for(kPatience), std::future_status::ready);
    const ReduceResult result = third.get();
    ASSERT_FALSE(result.ok);
    EXPECT_EQ(result.error.failure, ReduceFailure::kPeerLost) << result.error.detail;
    EXPECT_EQ(result.error.lost, kVictim) << result.error.detail;
  }

  static inline std::array<std::unique_ptr<Victim>, 2> victims_;
};

TEST_F(PeerProcess, KilledIsNamedAtOnce) { expect_named(*victims_[0], SIGKILL); }
TEST_F(PeerProcess, FrozenIsNamedByTheKeepAlive) { expect_named(*victims_[1], SIGSTOP); }

}  // namespace
}  // namespace shoal::outer_opt
