// What the tests of this folder share: a thread that runs a context, and what the tests of streams
// have: replicas of one cluster with certificates.
#pragma once

#include <functional>
#include <future>
#include <thread>

#include "wire/relay/client.h"
#include "wire/relay/relay.h"
#include "wire/stream/stream_test_util.h"

namespace shoal::wire::relay {

using stream::eventually;
using stream::kLimit;
using stream::kNow;
using stream::kPatience;
using stream::TestCluster;

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

}  // namespace shoal::wire::relay
