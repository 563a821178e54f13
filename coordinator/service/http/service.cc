#include "coordinator/service/http/service.h"

#include <algorithm>
#include <random>

#include "base/prng.h"

namespace shoal::coordinator::rest {
namespace {

ClientLimitOptions limits_of(const HttpOptions& options) {
  ClientLimitOptions limits = options.clients;
  limits.connections_max = options.connections_max;
  return limits;
}

}  // namespace

Service::Slot::Slot(Service& service, std::atomic<std::int64_t>& counter)
    : service_(&service), counter_(&counter) {
  counter_->fetch_add(1);
  service_->show_counts();
}

Service::Slot::~Slot() {
  if (service_ == nullptr) return;
  const MutexLock lock(service_->mutex_);
  if (counter_->fetch_sub(1) == 1) service_->emptied_.notify_all();
  service_->show_counts();
}

void Service::show_counts() {
  metrics.connections(connections.load());
  metrics.streams(streams.load());
}

Service::Service(HttpOptions chosen, Cluster& where)
    : options(std::move(chosen)),
      cluster(where),
      metrics(where.meters()),
      clients(limits_of(options)),
      io_context_of_handlers{options, where, metrics, verified_, nullptr, {}, {}},
      request_number_(std::random_device{}() * std::uint64_t{0x9e3779b97f4a7c15}),
      io(options.threads) {}

void Service::start_threads() {
  const std::weak_ptr<Service> weak = weak_from_this();
  auto on_worker = [weak](std::function<void(Context&)> job) {
    const auto service = weak.lock();
    return service && service->workers->post_rest(std::move(job));
  };
  auto on_slow_worker = [weak](std::function<void(const std::atomic<bool>&)> job) {
    const auto service = weak.lock();
    return service && service->slow->post([weak, job = std::move(job)](FileScratch&) {
      if (const auto alive = weak.lock()) job(alive->stopping);
    });
  };
  slow = std::make_unique<WorkerPool<FileScratch>>(1, kSlowJobsMax,
                                                   [] { return std::make_unique<FileScratch>(); });
  workers = std::make_unique<WorkerPool<Context>>(
      options.workers, static_cast<std::size_t>(options.questions_max),
      [this, on_worker, on_slow_worker] {
        return std::make_unique<Context>(Context{options, cluster, metrics, verified_,
                                                 cluster.store().reader(), on_worker,
                                                 on_slow_worker});
      });
  // A connection has at most one read waiting.
  files = std::make_unique<WorkerPool<FileScratch>>(
      1, static_cast<std::size_t>(options.connections_max) + 1,
      [] { return std::make_unique<FileScratch>(); });
  subscription = cluster.on_events([weak](std::int64_t seq) {
    if (const auto service = weak.lock()) service->on_events(seq);
  });
}

void Service::track(std::weak_ptr<Peer> peer) {
  const MutexLock lock(mutex_);
  if (peers_.size() >= sweep_at_) {
    std::erase_if(peers_, [](const std::weak_ptr<Peer>& entry) { return entry.expired(); });
    sweep_at_ = std::max<std::size_t>(64, peers_.size() * 2);
  }
  peers_.push_back(std::move(peer));
}

void Service::stop_peers() {
  std::vector<std::weak_ptr<Peer>> peers;
  {
    const MutexLock lock(mutex_);
    peers = peers_;
  }
  for (const auto& weak : peers)
    if (const auto peer = weak.lock()) peer->stop();
}

bool Service::wait_until_empty(Duration limit) {
  const MutexLock lock(mutex_);
  return emptied_.wait_for(mutex_, std::chrono::nanoseconds(limit.ns),
                           [this]() SHOAL_REQUIRES(mutex_) { return connections.load() == 0; });
}

std::string Service::next_request_id() {
  std::uint64_t state = request_number_.fetch_add(1);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string id = "req_";
  std::uint64_t bits = split_mix(state);
  for (int i = 0; i < 16; ++i, bits >>= 4) id.push_back(kHex[bits & 15]);
  return id;
}

// On a runtime thread: must not block. Many calls between two turns of the I/O thread become one.
void Service::on_events(std::int64_t seq) {
  std::int64_t known = newest_seq.load();
  while (known < seq && !newest_seq.compare_exchange_weak(known, seq)) {
  }
  if (wake_posted_.exchange(true)) return;
  http_io::net::post(io, [this] { tell_streams(); });
}

void Service::tell_streams() {
  wake_posted_ = false;
  const std::int64_t newest = newest_seq.load();
  std::vector<std::weak_ptr<Peer>> peers;
  {
    const MutexLock lock(mutex_);
    if (streams.load() > 0) peers = peers_;
  }
  for (const auto& weak : peers)
    if (const auto peer = weak.lock()) peer->events_are_new(newest);
}

}  // namespace shoal::coordinator::rest
