// Threads that read datasets for the trainers of this host (data_source.h), and the calls with
// which they fetch from the coordinator. Each question is answered once, from one of these threads.
//
// Threads: read() and stop() may be called by any thread; read() does not wait.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "agent/host/coordinator_link.h"
#include "agent/host/data_source.h"
#include "agent/host/url_reader.h"
#include "threads/mutex.h"

namespace shoal::agent {

class DataReaders {
 public:
  static constexpr int kThreads = 4;
  static constexpr std::size_t kWaitingMax = 1'024;  // questions; one more is to come again

  using Done = std::function<void(Result<std::string>)>;

  // `cache` must outlive it. URLs of datasets are read within `reach`. `fetched` gets the size of
  // each content that was not in the cache, on any thread.
  DataReaders(DataCache& cache, CoordinatorEndpoint coordinator, const objects::Reach& reach = {},
              std::function<void(Bytes)> fetched = {});
  ~DataReaders();  // stops
  DataReaders(const DataReaders&) = delete;
  DataReaders& operator=(const DataReaders&) = delete;

  // As DataSource::read().
  void read(ReplicaId replica, std::string manifest, std::int64_t shard, std::int64_t chunk,
            Done done) SHOAL_EXCLUDES(mutex_);
  // Breaks off what is being fetched, and answers what waits with kUnavailable; so later ones, too.
  void stop() SHOAL_EXCLUDES(mutex_);

 private:
  struct Question {
    ReplicaId replica;
    std::string manifest;
    std::int64_t shard = 0, chunk = 0;
    Done done;
  };
  void run() SHOAL_EXCLUDES(mutex_);
  Result<std::string> fetch(const FileRange& range) SHOAL_EXCLUDES(mutex_);
  Result<std::string> fetch_from_coordinator(const FileRange& range) SHOAL_EXCLUDES(mutex_);
  Result<SignedUrl> sign(const FileRange& range) SHOAL_EXCLUDES(mutex_);
  std::shared_ptr<grpc::Channel> channel() SHOAL_EXCLUDES(mutex_);
  bool enter(grpc::ClientContext* call) SHOAL_EXCLUDES(mutex_);  // false: it is stopped
  void leave(grpc::ClientContext* call, bool worked) SHOAL_EXCLUDES(mutex_);

  const CoordinatorEndpoint coordinator_;
  const std::function<void(Bytes)> fetched_;
  UrlReader urls_;
  DataSource source_;
  Mutex mutex_;
  CondVar arrived_;
  std::deque<Question> questions_ SHOAL_GUARDED_BY(mutex_);
  std::set<grpc::ClientContext*> calls_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Channel> channel_ SHOAL_GUARDED_BY(mutex_);  // null: to be opened
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace shoal::agent
