// A frozen process at the other end. A program of its own: the client is forked before this process
// has a watch, whose thread a child would miss.
#include "wire/local_watch.h"

#include <array>
#include <csignal>
#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/local_socket.h"

namespace shoal::wire {
namespace {

constexpr Duration kKeepalive = milliseconds(500);

// Connects to `at` when it is told to, and lives on until it is killed.
struct Client {
  explicit Client(const std::string& at) {
    EXPECT_EQ(pipe(go.data()), 0);
    pid = fork();
    if (pid != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    char byte = 0;
    if (read(go[0], &byte, 1) != 1 || connect_locally(at, kKeepalive) < 0) _exit(1);
    for (;;) pause();
  }
  ~Client() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(go[0]);
    close(go[1]);
  }
  void connect() const { EXPECT_EQ(write(go[1], "", 1), 1); }

  std::array<int, 2> go{};
  pid_t pid = 0;
};

TEST(LocalWatch, AFrozenProcessLosesItsConnectionsAndALiveOneDoesNot) {
  const std::string at = "frozen:p" + std::to_string(getpid());
  const Client client(at);
  std::promise<int> arrived;
  auto listener = LocalListener::start(at, kKeepalive, [&](int fd) { arrived.set_value(fd); });
  ASSERT_TRUE(listener.ok());
  client.connect();
  auto accepted = arrived.get_future();
  ASSERT_EQ(accepted.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  pollfd ended{accepted.get(), 0, 0};
  EXPECT_EQ(poll(&ended, 1, 2500), 0);
  kill(client.pid, SIGSTOP);
  EXPECT_EQ(poll(&ended, 1, 10'000), 1);
  close(ended.fd);
}

// Connections are dialled anew for every round: what watched over one goes with it, at both ends.
TEST(LocalWatch, TheCompanionGoesWithItsConnection) {
  LocalWatch& watch = LocalWatch::of_process();
  const std::string at = "dialled:p" + std::to_string(getpid());
  std::vector<int> accepted;  // the listener's thread's, until it has ended
  auto listener = LocalListener::start(at, kKeepalive, [&](int fd) { accepted.push_back(fd); });
  ASSERT_TRUE(listener.ok());
  const auto companions_are = [&](std::size_t expected) {
    for (int i = 0; i < 100 && watch.companions() != expected; ++i) poll(nullptr, 0, 100);
    return watch.companions() == expected;
  };
  ASSERT_TRUE(companions_are(0));
  std::array<int, 8> dialled{};
  for (int& fd : dialled) ASSERT_GE(fd = connect_locally(at, kKeepalive), 0);
  EXPECT_TRUE(companions_are(2 * dialled.size())) << watch.companions();
  for (const int fd : dialled) {
    shutdown(fd, SHUT_RDWR);  // as gRPC does before it closes one
    close(fd);
  }
  EXPECT_TRUE(companions_are(0)) << watch.companions();
  listener->reset();
  for (const int fd : accepted) close(fd);
}

}  // namespace
}  // namespace shoal::wire
