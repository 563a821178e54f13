// Two replicas over a relay, on loopback: bytes pass, strangers do not, and what ends, ends.
#include <array>
#include <deque>
#include <optional>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "threads/mutex.h"
#include "wire/relay/relay_test_util.h"
#include "wire/relay/splice.h"
#include "wire/tcp_socket.h"

namespace shoal::wire::relay {
namespace {

std::unique_ptr<Relay> start(const TestCluster& cluster, RelayOptions options = {},
                             std::shared_ptr<const identity::Trust> trust = nullptr) {
  if (!trust) trust = cluster.trust();
  auto relay = Relay::start(std::move(options), cluster.name(), trust, [] { return kNow; });
  EXPECT_TRUE(relay.ok()) << to_string(relay.error());
  return std::move(*relay);
}

// A blocking end of what was joined.
class End {
 public:
  explicit End(int fd) : fd_(fd) {
    const timeval patience{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const int flags = fcntl(fd_, F_GETFL);
    fcntl(fd_, F_SETFL, flags & ~O_NONBLOCK);
  }
  ~End() { ::close(fd_); }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  void say(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t n = send(fd_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      at += static_cast<std::size_t>(n);
    }
  }
  std::string hear(std::size_t size) {
    std::string text(size, '\0');
    std::size_t at = 0;
    while (at < size) {
      const ssize_t n = recv(fd_, text.data() + at, size - at, 0);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    text.resize(at);
    return text;
  }
  void end() { shutdown(fd_, SHUT_WR); }

 private:
  const int fd_;
};

// A replica that waits at a relay and keeps the connections that come.
class Waiting {
 public:
  Waiting(const std::string& relay, const identity::Credentials& own) {
    waiter_ = std::make_shared<Waiter>(
        thread_.io,
        WaitOptions{.relay = relay,
                    .beat = milliseconds(100),
                    .backoff_first = milliseconds(20),
                    .backoff_max = milliseconds(100)},
        [own] { return own; }, 1);
    thread_.run([this] {
      waiter_->start(
          [this](int fd) {
            const MutexLock lock(mutex_);
            reached_.push_back(fd);
            changed_.notify_all();
          },
          [this](const Status& status) {
            const MutexLock lock(mutex_);
            waits_ = status.ok();
            why_ = status.ok() ? std::nullopt : std::optional(status.error());
            changed_.notify_all();
          });
    });
  }
  ~Waiting() {
    thread_.run([this] { waiter_->close(); });
  }
  bool waits(bool wanted = true) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, kPatience,
                             [&]() SHOAL_REQUIRES(mutex_) { return waits_ == wanted; });
  }
  std::optional<Error> why() {
    const MutexLock lock(mutex_);
    (void)changed_.wait_for(mutex_, kPatience,
                            [&]() SHOAL_REQUIRES(mutex_) { return why_.has_value(); });
    return why_;
  }
  std::unique_ptr<End> reached() {
    const MutexLock lock(mutex_);
    if (!changed_.wait_for(mutex_, kPatience,
                           [&]() SHOAL_REQUIRES(mutex_) { return !reached_.empty(); })) {
      return nullptr;
    }
    auto end = std::make_unique<End>(reached_.front());
    reached_.pop_front();
    return end;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool waits_ SHOAL_GUARDED_BY(mutex_) = false;
  std::optional<Error> why_ SHOAL_GUARDED_BY(mutex_);
  std::deque<int> reached_ SHOAL_GUARDED_BY(mutex_);
  IoThread thread_;
  std::shared_ptr<Waiter> waiter_;
};

Result<std::unique_ptr<End>> call(const std::string& relay, const identity::Credentials& own,
                                  std::uint64_t whom, Duration limit = kLimit) {
  IoThread thread;
  std::promise<Result<int>> told;
  thread.run([&] {
    call_over(
        thread.io, relay, [own] { return own; }, ReplicaId(whom), limit,
        [&](Result<int> fd) { told.set_value(std::move(fd)); });
  });
  auto future = told.get_future();
  EXPECT_EQ(future.wait_for(kPatience), std::future_status::ready);
  const Result<int> fd = future.get();
  if (!fd) return fd.error();
  return std::make_unique<End>(*fd);
}

std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 131 + i / 251);
  return text;
}

TEST(Relay, BytesPassBothWays) {
  const TestCluster cluster;
  const auto relay = start(cluster);
  Waiting hidden(relay->address(), cluster.credentials(7));
  ASSERT_TRUE(hidden.waits());
  const auto caller = call(relay->address(), cluster.credentials(8), 7);
  ASSERT_TRUE(caller.ok()) << to_string(caller.error());
  const auto called = hidden.reached();
  ASSERT_TRUE(called);
  const std::string there = pattern(3'000'000), back = pattern(1'000'003);
  std::thread speaker([&] { (*caller)->say(there); });
  EXPECT_EQ(called->hear(there.size()), there);
  speaker.join();
  std::thread answerer([&] { called->say(back); });
  EXPECT_EQ((*caller)->hear(back.size()), back);
  answerer.join();
  EXPECT_TRUE(
      eventually([&] { return relay->counts().bytes_total == there.size() + back.size(); }));
  EXPECT_EQ(relay->counts().joined, 1u);
  EXPECT_EQ(relay->counts().waiting, 1u);
  (*caller)->end();
  EXPECT_EQ(called->hear(1), "");  // the end passes, too
  called->say("still here");
  EXPECT_EQ((*caller)->hear(10), "still here");
  called->end();
  EXPECT_TRUE(eventually([&] { return relay->counts().joined == 0; }));
}

TEST(Relay, OneThatWaitsIsCalledByMany) {
  const TestCluster cluster;
  const auto relay = start(cluster);
  Waiting hidden(relay->address(), cluster.credentials(7));
  ASSERT_TRUE(hidden.waits());
  std::vector<std::unique_ptr<End>> ends;
  for (std::uint64_t n = 8; n < 16; ++n) {
    auto caller = call(relay->address(), cluster.credentials(n), 7);
    ASSERT_TRUE(caller.ok()) << to_string(caller.error());
    const auto called = hidden.reached();
    ASSERT_TRUE(called);
    (*caller)->say("hello " + std::to_string(n));
    const std::string heard = called->hear(7);
    EXPECT_EQ(heard.substr(0, 6), "hello ");
    ends.push_back(std::move(*caller));
  }
  EXPECT_EQ(relay->counts().joined_total, 8u);
}

TEST(Relay, StrangersAreRefusedBeforeAByte) {
  const TestCluster cluster, foreign("atoll");
  const auto trust = cluster.trust();
  const auto relay = start(cluster, {}, trust);
  Waiting hidden(relay->address(), cluster.credentials(7));
  ASSERT_TRUE(hidden.waits());
  const auto code_of = [&](const identity::Credentials& own, std::uint64_t whom) {
    const auto end = call(relay->address(), own, whom);
    return end.ok() ? Code::kInternal : end.error().code;
  };
  EXPECT_EQ(code_of(foreign.credentials(8), 7), Code::kUnauthenticated);
  EXPECT_EQ(code_of(cluster.credentials(8, 1, kNow - identity::kReplicaLife * 2), 7),
            Code::kUnauthenticated);
  EXPECT_NE(code_of(cluster.agent(8), 7), Code::kInternal);
  EXPECT_EQ(relay->counts().refused_identity, 3u);
  EXPECT_EQ(code_of(cluster.credentials(8, 2), 7), Code::kNotFound);  // of another job
  EXPECT_EQ(code_of(cluster.credentials(8), 6), Code::kNotFound);
  identity::Beliefs beliefs = cluster.beliefs();
  beliefs.revoked.agents = {AgentId(8)};
  trust->set(beliefs);
  EXPECT_NE(code_of(cluster.credentials(8), 7), Code::kInternal);
  EXPECT_EQ(relay->counts().joined_total, 0u);
}

TEST(Relay, SilentAndMadUpHandshakesEnd) {
  const TestCluster cluster;
  const auto relay =
      start(cluster, {.handshake_limit = milliseconds(100), .handshakes_per_host_max = 4});
  End silent(begin_connect(relay->address()));
  EXPECT_NE(silent.hear(1000), "");  // the challenge, a refusal
  EXPECT_EQ(silent.hear(1), "");     // and the end
  End liar(begin_connect(relay->address()));
  liar.say(std::string("\xff\xff\xff\x7f", 4) + "rest");
  (void)liar.hear(1000);
  EXPECT_EQ(liar.hear(1), "");
  End web(begin_connect(relay->address()));
  web.say("GET / HTTP/1.1\r\n\r\n");
  (void)web.hear(1000);
  EXPECT_EQ(web.hear(1), "");
  EXPECT_TRUE(eventually([&] { return relay->counts().refused_handshakes >= 3; }));
  std::vector<std::unique_ptr<End>> many;
  for (int i = 0; i < 8; ++i)
    many.push_back(std::make_unique<End>(begin_connect(relay->address())));
  EXPECT_TRUE(eventually([&] { return relay->counts().refused_handshakes >= 7; }));
}

TEST(Relay, WhoeverWaitsComesBackWhenTheRelayDoes) {
  const TestCluster cluster;
  auto relay = start(cluster);
  const std::string address = relay->address();
  Waiting hidden(address, cluster.credentials(7));
  ASSERT_TRUE(hidden.waits());
  relay.reset();
  ASSERT_TRUE(hidden.waits(false));
  EXPECT_EQ(hidden.why()->code, Code::kUnavailable);
  EXPECT_FALSE(call(address, cluster.credentials(8), 7).ok());
  relay = start(cluster, {.bind = address});
  ASSERT_TRUE(hidden.waits());
  EXPECT_TRUE(call(address, cluster.credentials(8), 7).ok());
}

// A relay that stands still is noticed by the missing answers to beats; one that is called and does
// not answer, by the relay.
TEST(Relay, ACallThatNobodyAnswersEnds) {
  const TestCluster cluster;
  const auto relay = start(cluster, {.limits = {.answer_limit = milliseconds(200)}});
  IoThread thread;
  std::promise<void> waits;
  std::shared_ptr<WordLine> line;
  const auto own = cluster.credentials(7);
  thread.run([&] {
    line = std::make_shared<WordLine>(thread.io, begin_connect(relay->address()));
    line->read(kLimit, [&](Result<Word> word) {
      line->write(sign_ask(std::get<Challenge>(*word).nonce, AskKind::kWait, {}, {}, own));
      line->read(kLimit, [&](Result<Word>) { waits.set_value(); });
    });
  });
  waits.get_future().wait();
  const auto late = call(relay->address(), cluster.credentials(8), 7);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  thread.run([&] { line->close(); });
}

TEST(Relay, AnIdleConnectionEnds) {
  const TestCluster cluster;
  const auto relay = start(cluster, {.idle_limit = milliseconds(100)});
  Waiting hidden(relay->address(), cluster.credentials(7));
  ASSERT_TRUE(hidden.waits());
  const auto caller = call(relay->address(), cluster.credentials(8), 7);
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ((*caller)->hear(1), "");
  EXPECT_TRUE(eventually([&] { return relay->counts().joined == 0; }));
}

TEST(Pace, KeepsARateOverTime) {
  Pace none(0);
  EXPECT_EQ(none.take(1'000'000'000, kNow), Duration());
  Pace pace(1'000'000);
  Instant now = kNow;
  for (int i = 0; i < 100; ++i) now = now + pace.take(50'000, now);  // 5 MB at 1 MB/s
  EXPECT_NEAR((now - kNow).seconds(), 5.0, 0.1);
}

TEST(RelayOptions, EachFieldIsChecked) {
  EXPECT_TRUE(check_options({}).ok());
  EXPECT_EQ(check_options({.handshakes_max = 0}).error().field, "handshakes_max");
  EXPECT_EQ(check_options({.idle_limit = Duration()}).error().field, "idle_limit");
  EXPECT_EQ(check_options({.mbit_max = -1}).error().field, "mbit_max");
  EXPECT_EQ(check_options({.limits = {.calls_max = 0}}).error().field, "calls_max");
}

}  // namespace
}  // namespace shoal::wire::relay
