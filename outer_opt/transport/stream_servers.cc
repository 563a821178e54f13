// See stream_servers.h.
#include "outer_opt/transport/stream_servers.h"

#include <utility>

namespace shoal::outer_opt {
namespace {

constexpr Duration kFlushLimit = seconds(5);

Error ends() { return {Code::kCancelled, "this node ends", "", ""}; }

}  // namespace

StreamServers::StreamServers(std::size_t threads_max, std::size_t waiting_max)
    : threads_max_(threads_max), waiting_max_(waiting_max) {}

std::shared_ptr<wire::stream::StreamEvents> StreamServers::take(
    std::shared_ptr<wire::stream::Stream> stream, Serve serve) {
  auto events = std::make_shared<wire::stream::BlockingStream>(std::move(stream));
  const MutexLock lock(mutex_);
  if (stopping_ || waiting_.size() >= waiting_max_) return nullptr;
  waiting_.push_back({events, std::move(serve)});
  if (waiting_.size() > idle_ && threads_.size() < threads_max_) {
    threads_.emplace_back([this] { run(); });
  }
  changed_.notify_one();
  return events;
}

bool StreamServers::next(Job& job) {
  const MutexLock lock(mutex_);
  ++idle_;
  changed_.wait(mutex_, [this]() SHOAL_REQUIRES(mutex_) { return stopping_ || !waiting_.empty(); });
  --idle_;
  if (stopping_) return false;
  job = std::move(waiting_.front());
  waiting_.pop_front();
  answered_.insert(job.stream);
  return true;
}

void StreamServers::run() {
  for (Job job; next(job); job = {}) {
    const Status status = job.serve(*job.stream);
    if (status.ok()) {
      job.stream->end();
    } else {
      (void)job.stream->flush(kFlushLimit);  // what it takes no longer is dropped
      job.stream->cancel(status.error());
    }
    const MutexLock lock(mutex_);
    answered_.erase(job.stream);
  }
}

void StreamServers::stop() {
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (const Job& job : waiting_) job.stream->cancel(ends());
    for (const StreamPtr& stream : answered_) stream->cancel(ends());
    waiting_.clear();
    threads.swap(threads_);
    changed_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace shoal::outer_opt
