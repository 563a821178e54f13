// Real TUN devices in network namespaces of this test's own: delays, bytes and counts that really
// come out. Needs to be allowed to make both; the rules are tested in core/.
#include "bench/line/forwarder.h"

#include <array>
#include <chrono>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include "bench/line/control.h"

namespace shoal::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kFirst = 0x0a4f0001;  // 10.79.0.1
constexpr std::uint16_t kPort = 7000;
constexpr int kPatienceMs = 20'000;

// Runs `use` in a thread that is in the namespace, or in a new one for -1.
template <typename Use>
void in_network(int network, Use use) {
  std::thread([&] {
    const int entered = network < 0 ? unshare(CLONE_NEWNET) : setns(network, CLONE_NEWNET);
    if (entered == 0) use();
  }).join();
}

Descriptor new_network() {
  Descriptor made;
  in_network(-1, [&] {
    if (!Descriptor(open("/dev/net/tun", O_RDWR | O_CLOEXEC))) return;
    made = Descriptor(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  });
  return made;
}

sockaddr_in address_of(int host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  address.sin_addr.s_addr = htonl(kFirst + static_cast<std::uint32_t>(host));
  return address;
}

bool readable(int fd, int patience_ms = kPatienceMs) {
  pollfd wait{fd, POLLIN, 0};
  return poll(&wait, 1, patience_ms) == 1;
}

std::byte pattern(std::size_t index) { return static_cast<std::byte>(index * 2654435761U >> 13); }

class ForwarderTest : public testing::Test {
 protected:
  void SetUp() override {
    for (Descriptor& network : networks_) {
      network = new_network();
      if (!network) GTEST_SKIP() << "no right to make a network namespace or a TUN device";
    }
  }
  void TearDown() override { stop(); }

  void start(const LineOptions& line, bool offload = true) {
    for (int i = 0; i < 2; ++i) {
      HostSetup host;
      host.name = std::string(1, static_cast<char>('a' + i));
      host.tun.network = "/proc/self/fd/" + std::to_string(networks_[i].get());
      host.tun.address = kFirst + static_cast<std::uint32_t>(i);
      host.tun.offload = offload;
      host.lines = {line, line};
      setup_.hosts.push_back(host);
    }
    auto made = Forwarder::open(setup_);
    ASSERT_TRUE(made.ok()) << to_string(made.error());
    forwarder_ = std::move(*made);
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    control_ = Descriptor(ends[1]);
    std::array<int, 2> answers{};
    ASSERT_EQ(pipe2(answers.data(), O_CLOEXEC), 0);
    answers_ = Descriptor(answers[0]);
    answering_ = Descriptor(answers[1]);
    thread_ = std::thread([this, control = ends[0]] {
      const Descriptor orders(control);
      forwarder_->run(control, -1, [this](std::string_view text) { obey(text); });
    });
  }

  void stop() {
    if (!thread_.joinable()) return;
    control_ = Descriptor();
    thread_.join();
  }

  Descriptor open_socket(int host, int type) {
    Descriptor made;
    in_network(networks_[host].get(), [&] {
      made = Descriptor(socket(AF_INET, type | SOCK_CLOEXEC, 0));
      const sockaddr_in address = address_of(host);
      if (bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        made = Descriptor();
      }
    });
    return made;
  }

  // What the other host got of `size` bytes by TCP, and how long that took.
  std::vector<std::byte> carry(std::size_t size) {
    const Descriptor listener = open_socket(1, SOCK_STREAM), sender = open_socket(0, SOCK_STREAM);
    const sockaddr_in to = address_of(1);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(connect(sender.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    const Descriptor receiver(accept(listener.get(), nullptr, nullptr));
    std::thread writer([&] {
      std::vector<std::byte> bytes(size);
      for (std::size_t i = 0; i < size; ++i) bytes[i] = pattern(i);
      for (std::size_t at = 0; at < size;) {
        const ssize_t sent = send(sender.get(), bytes.data() + at, size - at, MSG_NOSIGNAL);
        if (sent <= 0) break;
        at += static_cast<std::size_t>(sent);
      }
      shutdown(sender.get(), SHUT_WR);
    });
    std::vector<std::byte> got, chunk(1 << 16);
    while (readable(receiver.get())) {
      const ssize_t size_now = recv(receiver.get(), chunk.data(), chunk.size(), 0);
      if (size_now <= 0) break;
      got.insert(got.end(), chunk.begin(), chunk.begin() + size_now);
    }
    shutdown(receiver.get(), SHUT_RDWR);
    writer.join();
    return got;
  }

  void expect_all_arrive(std::size_t size) {
    const std::vector<std::byte> got = carry(size);
    ASSERT_EQ(got.size(), size);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < size; ++i) wrong += got[i] == pattern(i) ? 0 : 1;
    EXPECT_EQ(wrong, 0u);
  }

  // Whether the order was taken.
  bool tell(const std::string& order) {
    const std::string line = order + "\n";
    EXPECT_EQ(write(control_.get(), line.data(), line.size()), std::ssize(line));
    char answer = 0;
    EXPECT_TRUE(readable(answers_.get()) && read(answers_.get(), &answer, 1) == 1);
    return answer == 'y';
  }
  void obey(std::string_view text) {
    const auto order = parse_order(text, setup_);
    if (order.ok()) forwarder_->set(order->host, order->lines);
    EXPECT_EQ(write(answering_.get(), order.ok() ? "y" : "n", 1), 1);
  }

  std::array<Descriptor, 2> networks_;
  LineSetup setup_;
  std::unique_ptr<Forwarder> forwarder_;
  Descriptor control_, answers_, answering_;
  std::thread thread_;
};

TEST_F(ForwarderTest, ADatagramTakesTheDelaysOfAllLinesOnItsWay) {
  LineOptions line;
  line.delay = milliseconds(20);
  start(line);
  const Descriptor a = open_socket(0, SOCK_DGRAM), b = open_socket(1, SOCK_DGRAM);
  const sockaddr_in to = address_of(1), back = address_of(0);
  char text = 'x';
  const auto begin = Clock::now();
  sendto(a.get(), &text, 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  ASSERT_TRUE(readable(b.get()));
  sendto(b.get(), &text, 1, 0, reinterpret_cast<const sockaddr*>(&back), sizeof back);
  ASSERT_TRUE(readable(a.get()));
  const std::chrono::duration<double> spent = Clock::now() - begin;
  EXPECT_GE(spent.count(), 0.08);
  EXPECT_LT(spent.count(), 2);
  stop();
  const ForwarderCounts counts = forwarder_->counts();
  EXPECT_EQ(counts.hosts[0].up.passed, 1);
  EXPECT_EQ(counts.hosts[0].down.passed, 1);
  EXPECT_EQ(counts.hosts[0].up.bytes_passed, 29);
  EXPECT_LT(counts.late_p50, milliseconds(10));
}

TEST_F(ForwarderTest, TcpGetsEveryByteThroughLossAndDetours) {
  LineOptions line;
  line.delay = milliseconds(1);
  line.bytes_per_s = 25e6;
  line.loss = 0.01;
  line.reorder = 0.01;
  line.detour = milliseconds(2);
  start(line);
  const auto begin = Clock::now();
  expect_all_arrive(4 << 20);
  const std::chrono::duration<double> spent = Clock::now() - begin;
  EXPECT_GT(spent.count(), (4 << 20) / 25e6);
  stop();
  const ForwarderCounts counts = forwarder_->counts();
  EXPECT_GT(counts.hosts[0].up.lost, 0);
  EXPECT_GT(counts.hosts[0].up.detoured, 0);
  EXPECT_EQ(counts.hosts[0].refused + counts.hosts[1].refused, 0);
  EXPECT_EQ(counts.hosts[0].device_dropped, 0);
}

TEST_F(ForwarderTest, WithoutOffloadEverySegmentIsAPacket) {
  LineOptions line;
  line.loss = 0.01;
  start(line, false);
  expect_all_arrive(1 << 20);
  stop();
  EXPECT_GT(forwarder_->counts().hosts[0].up.passed, (1 << 20) / 1448);
}

TEST_F(ForwarderTest, OrdersAreFollowedWhileItRuns) {
  start({});
  EXPECT_FALSE(tell(R"({"host": "nobody"})"));
  EXPECT_TRUE(tell(R"({"host": "a", "up": {"delay_ms": 30}})"));
  EXPECT_FALSE(tell(std::string(100'000, ' ')));  // longer than any order
  EXPECT_TRUE(tell(R"({"host": "b", "down": {"delay_ms": 30}})"));
  const Descriptor a = open_socket(0, SOCK_DGRAM), b = open_socket(1, SOCK_DGRAM);
  const sockaddr_in to = address_of(1);
  const auto begin = Clock::now();
  sendto(a.get(), "x", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  ASSERT_TRUE(readable(b.get()));
  EXPECT_GE(std::chrono::duration<double>(Clock::now() - begin).count(), 0.06);
}

TEST_F(ForwarderTest, WhatIsSentToNobodyIsCounted) {
  start({});
  const Descriptor a = open_socket(0, SOCK_DGRAM), b = open_socket(1, SOCK_DGRAM);
  const sockaddr_in nobody = address_of(8), to = address_of(1);
  for (const sockaddr_in& address : {nobody, to}) {
    sendto(a.get(), "x", 1, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  ASSERT_TRUE(readable(b.get()));
  stop();
  EXPECT_GE(forwarder_->counts().hosts[0].unroutable, 1);
}

TEST(Forwarder, RefusesANamespaceThatIsNotThere) {
  LineSetup setup;
  setup.hosts.resize(2);
  setup.hosts[0].tun.network = "no-such-namespace-here";
  const auto made = Forwarder::open(setup);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().field, "no-such-namespace-here");
}

}  // namespace
}  // namespace shoal::bench
