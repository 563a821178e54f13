// What a handler may use. One Context per worker thread (with a Reader of its own) and one for the
// I/O threads (without).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "coordinator/service/cluster.h"
#include "coordinator/service/http/verified_files.h"
#include "coordinator/store/reader.h"

namespace shoal::coordinator {
struct HttpOptions;  // server.h
}  // namespace shoal::coordinator

namespace shoal::coordinator::rest {

class Metrics;  // metrics.h

struct Context {
  const HttpOptions& options;
  Cluster& cluster;
  Metrics& metrics;
  VerifiedFiles& verified;
  std::unique_ptr<Reader> reader;  // null on an I/O thread

  // Runs the job on a worker later, from any thread, even after the server is gone (then it is
  // dropped and false comes back). For what follows a Cluster answer.
  std::function<bool(std::function<void(Context&)>)> on_worker;

  // The same for work that takes minutes, one at a time; it looks at the flag, which says that the
  // server stops. False: the queue is full.
  std::function<bool(std::function<void(const std::atomic<bool>& stopping)>)> on_slow_worker;
};

}  // namespace shoal::coordinator::rest
