// What the tests of this folder share: replicas of one cluster with certificates, and a thread that
// runs a context.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "identity/authority.h"
#include "identity/request.h"
#include "wire/relay/client.h"
#include "wire/relay/relay.h"

namespace shoal::wire::relay {

inline constexpr auto kPatience = std::chrono::seconds(20);
inline constexpr Duration kLimit = seconds(20);
inline constexpr Instant kNow = from_unix_ms(1'800'000'000'000);

class TestCluster {
 public:
  explicit TestCluster(const char* name = "reef")
      : name_{name}, ca_(identity::Authority::make(name_, kNow - identity::kDay)) {}

  const identity::ClusterName& name() const { return name_; }
  identity::Credentials credentials(std::uint64_t replica, std::uint64_t job = 1,
                                    Instant at = kNow) const {
    const auto key = identity::PrivateKey::make();
    const auto request = *identity::SigningRequest::parse(identity::make_request(key));
    const identity::ReplicaName who{AgentId(replica), JobId(job), 0, 0, ReplicaId(replica)};
    return {key, *ca_.issue_replica(request, who, at), ca_.chain(at)};
  }
  identity::Credentials agent(std::uint64_t n) const {
    const auto key = identity::PrivateKey::make();
    const auto request = *identity::SigningRequest::parse(identity::make_request(key));
    return {key, *ca_.issue_agent(request, AgentId(n), kNow), ca_.chain(kNow)};
  }
  identity::Beliefs beliefs() const { return {ca_.roots(kNow), {}}; }
  std::shared_ptr<identity::Trust> trust() const {
    return std::make_shared<identity::Trust>(beliefs());
  }

 private:
  identity::ClusterName name_;
  identity::Authority ca_;
};

class IoThread {
 public:
  IoThread() : work_(net::make_work_guard(io)), thread_([this] { io.run(); }) {}
  ~IoThread() {
    io.stop();
    thread_.join();
  }
  void run(const std::function<void()>& what) {
    std::promise<void> done;
    net::post(io, [&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }

  net::io_context io;

 private:
  net::executor_work_guard<net::io_context::executor_type> work_;
  std::thread thread_;
};

inline bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return holds();
}

}  // namespace shoal::wire::relay
