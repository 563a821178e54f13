// What the tests of this folder share: nodes with certificates of one cluster, and a user of
// streams that writes down what happens to it and can be waited for.
#pragma once

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "identity/asio_ssl.h"
#include "identity/authority.h"
#include "identity/request.h"
#include "identity/tls_context.h"
#include "threads/mutex.h"
#include "wire/stream/node.h"

namespace shoal::wire::stream {

inline constexpr auto kPatience = std::chrono::seconds(20);
inline constexpr Duration kLimit = seconds(20);
inline constexpr Instant kNow = from_unix_ms(1'800'000'000'000);

// A cluster that makes replicas, each with contexts of its own.
class TestCluster {
 public:
  explicit TestCluster(const char* name = "reef")
      : name_{name}, ca_(identity::Authority::make(name_, kNow - identity::kDay)) {}

  const identity::ClusterName& name() const { return name_; }
  identity::Beliefs beliefs() const { return {ca_.roots(kNow), {}}; }
  std::shared_ptr<identity::Trust> trust() const {
    return std::make_shared<identity::Trust>(beliefs());
  }

  identity::ReplicaName replica(std::uint64_t n) const {
    return {AgentId(n), JobId(1), 0, 0, ReplicaId(n)};
  }
  identity::ExpectedPeer exactly(std::uint64_t n) const {
    return identity::expect_exactly({name_, replica(n)});
  }
  identity::PeerName name_of(std::uint64_t n) const { return {name_, replica(n)}; }

  TlsContexts contexts(std::uint64_t n) const { return contexts_of(credentials(n)); }
  TlsContexts contexts_of(const identity::Credentials& own) const {
    const identity::ExpectedPeer any{.cluster = name_};
    const auto clock = [] { return kNow; };
    return {*identity::make_tls_context(identity::MutualServer{own, trust(), any}, clock),
            *identity::make_tls_context(identity::Client{own, trust(), any}, clock)};
  }
  identity::Credentials credentials(std::uint64_t n, std::uint64_t job = 1,
                                    Instant at = kNow) const {
    identity::ReplicaName who = replica(n);
    who.job = JobId(job);
    return credentials_of(who, at);
  }
  identity::Credentials credentials_of(const identity::ReplicaName& who, Instant at = kNow) const {
    const auto key = identity::PrivateKey::make();
    return {key, *ca_.issue_replica(request_of(key), who, at), ca_.chain(at)};
  }
  identity::Credentials agent(std::uint64_t n) const {
    const auto key = identity::PrivateKey::make();
    return {key, *ca_.issue_agent(request_of(key), AgentId(n), kNow), ca_.chain(kNow)};
  }

 private:
  static identity::SigningRequest request_of(const identity::PrivateKey& key) {
    return *identity::SigningRequest::parse(identity::make_request(key));
  }

  identity::ClusterName name_;
  identity::Authority ca_;
};

// Takes everything, and keeps it. Messages are released as they come unless `holds`.
class Recorder : public StreamEvents {
 public:
  struct Seen {
    std::string head, body;
  };
  bool holds = false, refuses = false;
  std::function<void(const Seen&)> on_message;  // from the I/O thread
  std::shared_ptr<Stream> stream;               // set before anything comes

  std::optional<std::span<std::byte>> place(std::span<const std::byte>, std::size_t size) override {
    if (refuses) return std::nullopt;
    return std::span(bodies_.emplace_back(size));
  }
  void arrived(std::span<const std::byte> head, std::span<std::byte> body) override {
    Seen seen{text(head), text(body)};
    if (!holds) stream->release(body.size());
    {
      const MutexLock lock(mutex_);
      messages_.push_back(seen);
    }
    changed_.notify_all();
    if (on_message) on_message(seen);
  }
  void ended() override {
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  void closed(const std::optional<Error>& error) override {
    const MutexLock lock(mutex_);
    closed_ = true;
    error_ = error;
    changed_.notify_all();
  }

  bool wait_messages(std::size_t count) {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, kPatience,
                             [&]() SHOAL_REQUIRES(mutex_) { return messages_.size() >= count; });
  }
  bool wait_closed() {
    const MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, kPatience, [&]() SHOAL_REQUIRES(mutex_) { return closed_; });
  }
  std::vector<Seen> messages() const {
    const MutexLock lock(mutex_);
    return messages_;
  }
  std::optional<Error> error() const {
    const MutexLock lock(mutex_);
    return error_;
  }
  bool has_ended() const {
    const MutexLock lock(mutex_);
    return ended_;
  }
  bool is_closed() const {
    const MutexLock lock(mutex_);
    return closed_;
  }

 private:
  static std::string text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::deque<std::vector<std::byte>> bodies_;  // I/O thread
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Seen> messages_ SHOAL_GUARDED_BY(mutex_);
  std::optional<Error> error_ SHOAL_GUARDED_BY(mutex_);
  bool ended_ SHOAL_GUARDED_BY(mutex_) = false, closed_ SHOAL_GUARDED_BY(mutex_) = false;
};

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

// What another thread counts just after it has done something that a test sees.
inline bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return holds();
}

inline std::string pattern(std::size_t size, unsigned seed) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>((i * 31 + i / 251 + seed) % 251);
  return text;
}

// `body` must outlive the message.
inline OutMessage message_of(std::string_view head, const std::string& body,
                             std::function<void(bool)> done = nullptr) {
  return {bytes_of(head), {std::as_bytes(std::span(body))}, std::move(done)};
}

// Gives every stream that peers open a recorder.
class Host {
 public:
  explicit Host(NodeOptions options) {
    auto node = Node::start(std::move(options),
                            [this](std::shared_ptr<Stream> stream, std::string_view purpose) {
                              return take(std::move(stream), purpose);
                            });
    EXPECT_TRUE(node.ok()) << to_string(node.error());
    node_ = std::move(node).value();
  }

  Node& node() { return *node_; }
  std::function<void(Recorder&, const std::string& purpose)> prepare;  // set before streams come

  Result<std::shared_ptr<Pair>> dial(DialOptions options) {
    auto told = std::make_shared<std::promise<Result<std::shared_ptr<Pair>>>>();
    auto future = told->get_future();
    node_->dial(std::move(options),
                [told](Result<std::shared_ptr<Pair>> pair) { told->set_value(std::move(pair)); });
    if (future.wait_for(kPatience) != std::future_status::ready) {
      return Error{Code::kInternal, "dialing hangs", "", ""};
    }
    return future.get();
  }

  // The next stream that a peer has opened.
  std::shared_ptr<Recorder> accepted() {
    const MutexLock lock(mutex_);
    if (!changed_.wait_for(mutex_, kPatience,
                           [&]() SHOAL_REQUIRES(mutex_) { return !taken_.empty(); })) {
      return nullptr;
    }
    auto first = taken_.front();
    taken_.pop_front();
    return first;
  }

 private:
  std::shared_ptr<StreamEvents> take(std::shared_ptr<Stream> stream, std::string_view purpose) {
    if (purpose == "nobody") return nullptr;
    auto recorder = std::make_shared<Recorder>();
    recorder->stream = std::move(stream);
    if (prepare) prepare(*recorder, std::string(purpose));
    const MutexLock lock(mutex_);
    taken_.push_back(recorder);
    changed_.notify_all();
    return recorder;
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Recorder>> taken_ SHOAL_GUARDED_BY(mutex_);
  std::unique_ptr<Node> node_;  // ends first
};

inline std::shared_ptr<Recorder> open(Pair& pair, std::string purpose, Duration limit = kLimit,
                                      const std::function<void(Recorder&)>& prepare = nullptr) {
  auto recorder = std::make_shared<Recorder>();
  if (prepare) prepare(*recorder);
  (void)pair.open(
      std::move(purpose),
      [&](std::shared_ptr<Stream> stream) {
        recorder->stream = std::move(stream);
        return recorder;
      },
      limit);
  return recorder;
}

}  // namespace shoal::wire::stream
