// A neighbor in a process of its own that is killed or frozen: its loss is told in time, at once
// or by its silence. The processes are forked before this one has threads.
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "outer_opt/transport/peer_node.h"
#include "swarm/pipeline/pipeline_service.h"
#include "threads/mutex.h"

namespace shoal::swarm {
namespace {

constexpr ReplicaId kSurvivor{1}, kVictim{2};
constexpr Duration kKeepalive = seconds(1);
constexpr StageShape kShape{.sequences = 1, .context = 200'000};
constexpr auto kPatience = std::chrono::seconds(10);
using Address = std::array<char, 64>;

struct Station {
  Station(ReplicaId id, StageIndex stage, const std::function<void()>& wake) : self(id) {
    outer_opt::PeerNodeOptions node_options;
    node_options.keepalive = kKeepalive;
    node = outer_opt::PeerNode::start(node_options).value();
    service = PipelineService::create(*node);
    const NeighborsOptions options{JobId(1), 0, self, {stage, 2, kShape, ActivationCodec::kFp32}};
    neighbors = Neighbors::create(options, PipelineHost::of(*service).context(), wake);
    PipelineHost::of(*service).enter(self, neighbors);
  }
  ~Station() {
    PipelineHost::of(*service).leave(self);
    neighbors->close();
    neighbors.reset();
  }
  std::unique_ptr<outer_opt::PeerNode> node;
  std::unique_ptr<PipelineService> service;
  std::shared_ptr<Neighbors> neighbors;
  const ReplicaId self;
};

// Tells its address, then takes streams until it is ended.
[[noreturn]] void live(int in, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Station station(kVictim, 1, [] {});
  Address own{};
  std::strncpy(own.data(), station.node->address().c_str(), own.size() - 1);
  if (write(out, own.data(), own.size()) != static_cast<ssize_t>(own.size())) _exit(1);
  char end;
  const bool told = read(in, &end, 1) >= 0;  // until the other end closes
  _exit(told ? 0 : 1);
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
  std::string address() const {
    Address address{};
    EXPECT_EQ(read(from, address.data(), address.size()), static_cast<ssize_t>(address.size()));
    return address.data();
  }
  pid_t pid = 0;
  int to = -1, from = -1;
};

class StreamProcess : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (auto& victim : victims_) victim = std::make_unique<Victim>();
  }
  static void TearDownTestSuite() {
    for (auto& victim : victims_) victim.reset();
  }

  void expect_lost(const Victim& victim, int signal, int frames = 0) {
    const Station survivor(kSurvivor, 0, [this] {
      const MutexLock lock(mutex_);
      woken_ = true;
      changed_.notify_all();
    });
    survivor.neighbors->dial({{kVictim, 1, victim.address(), 0}});
    ASSERT_TRUE(hears<Connected>(survivor));
    kill(victim.pid, signal);
    for (int i = 0; i < frames; ++i) send_forward(survivor);
    EXPECT_TRUE(hears<Lost>(survivor));
  }

  static void send_forward(const Station& station) {
    const auto body = std::make_shared<const std::vector<std::byte>>(
        encoded_size(ActivationCodec::kFp32, kShape.rows()) +
        sizeof(std::uint32_t) * (kShape.context + 1));
    const std::span<const std::byte> pieces[] = {*body};
    FrameHeader header = header_of(ForwardHeader{}, FrameKind::kForward);
    header.rows = static_cast<std::uint32_t>(kShape.rows());
    header.columns = 1;
    header.tokens = static_cast<std::uint32_t>(kShape.context + 1);
    header.body_size = body->size();
    header.checksum = body_checksum(pieces);
    station.neighbors->send(kVictim, header, body);
  }

  template <typename News>
  bool hears(const Station& station) {
    const auto deadline = Clock::now() + kPatience;
    while (Clock::now() < deadline) {
      for (const Arrival& arrival : station.neighbors->take()) {
        if (std::holds_alternative<News>(arrival.news)) return true;
      }
      const MutexLock lock(mutex_);
      changed_.wait_until(mutex_, deadline, [this]() SHOAL_REQUIRES(mutex_) { return woken_; });
      woken_ = false;
    }
    return false;
  }

  static inline std::array<std::unique_ptr<Victim>, 3> victims_;
  Mutex mutex_;
  CondVar changed_;
  bool woken_ SHOAL_GUARDED_BY(mutex_) = false;
};

TEST_F(StreamProcess, AKilledNeighborIsLostAtOnce) { expect_lost(*victims_[0], SIGKILL); }
TEST_F(StreamProcess, AFrozenNeighborIsLostByItsSilence) { expect_lost(*victims_[1], SIGSTOP); }
// The beat waits behind what the frozen process does not read.
TEST_F(StreamProcess, AFrozenNeighborIsLostWithAFullLine) {
  expect_lost(*victims_[2], SIGSTOP, 50);
}

}  // namespace
}  // namespace shoal::swarm
