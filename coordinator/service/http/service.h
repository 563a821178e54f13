// What the connections of one server share: the I/O threads' context, the workers, limits, metrics
// and the lists of who is connected. Owned by HttpServer; callbacks of the cluster hold it weakly,
// so that a late answer after stop() falls into the void.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "coordinator/service/http/asio.h"
#include "coordinator/service/http/client_limits.h"
#include "coordinator/service/http/context.h"
#include "coordinator/service/http/metrics.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/http/worker_pool.h"
#include "threads/mutex.h"

namespace shoal::coordinator::rest {

inline constexpr std::size_t kSlowJobsMax = 16;  // waiting; one more is answered 503

// A connection or a stream, as the server sees it. Both calls are thread-safe and only post.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual void stop() = 0;  // finish what is being answered, then close
  virtual void events_are_new(std::int64_t newest_seq) {}
};

struct FileScratch {};  // the file thread needs no context

class Service : public std::enable_shared_from_this<Service> {
 public:
  Service(HttpOptions chosen, Cluster& where);

  void start_threads();  // workers, the file thread, the subscription to events

  // Counts one connection or one stream for as long as it lives.
  class Slot {
   public:
    Slot(Service& service, std::atomic<std::int64_t>& counter);
    Slot(Slot&& other) noexcept
        : service_(std::exchange(other.service_, nullptr)), counter_(other.counter_) {}
    Slot& operator=(Slot&&) = delete;
    ~Slot();

   private:
    Service* service_;
    std::atomic<std::int64_t>* counter_;
  };

  void track(std::weak_ptr<Peer> peer);
  void stop_peers();
  bool wait_until_empty(Duration limit);  // true: nobody is connected any more
  std::string next_request_id();

  Refusals& refusals() { return options.refusals != nullptr ? *options.refusals : own_refusals_; }

  const HttpOptions options;
  Cluster& cluster;
  Metrics metrics;
  ClientLimits clients;
  std::atomic<std::int64_t> connections{0}, streams{0}, newest_seq{0};
  std::atomic<bool> stopping{false};
  Context io_context_of_handlers;  // for routes that need no Reader
  std::unique_ptr<WorkerPool<Context>> workers;
  std::unique_ptr<WorkerPool<FileScratch>> files;
  std::unique_ptr<WorkerPool<FileScratch>> slow;  // hashing of whole checkpoints
  std::shared_ptr<void> subscription;

 private:
  void show_counts();
  void on_events(std::int64_t seq);
  void tell_streams();

  Refusals own_refusals_{cluster.meters()};
  VerifiedFiles verified_;  // of the slow worker
  Mutex mutex_;
  CondVar emptied_;
  std::vector<std::weak_ptr<Peer>> peers_ SHOAL_GUARDED_BY(mutex_);
  std::size_t sweep_at_ SHOAL_GUARDED_BY(mutex_) =
      64;  // peers_ is swept of closed ones when it reaches this
  std::atomic<bool> wake_posted_{false};
  std::atomic<std::uint64_t> request_number_;

 public:
  // Destroyed first: the handlers in it own connections, which refer to everything above.
  http_io::net::io_context io;
};

}  // namespace shoal::coordinator::rest
