// Does the slow work on checkpoints for the core, off its thread: fetches on one thread, hashes and
// uploads on another, each in order. A job whose folder is deleted meanwhile is broken off first.
//
// A transfer goes on where an earlier one broke off: an upload where the coordinator says it is, a
// fetch behind what lies beside its folder (transfer/file_receiver.h), also after a restart of the
// agent. What was fetched in part is kept when nobody waits for it any more: the next one may. At
// most kKeptMax of them are, the newest. A third thread says about once a second how far the
// transfers are, and breaks off one in which nothing moves.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "agent/core/io.h"
#include "agent/host/coordinator_link.h"

namespace shoal::agent {

class CheckpointWorker {
 public:
  using Post = std::function<void(Input)>;  // any thread

  static constexpr std::size_t kKeptMax = 2;

  // `silence`: a transfer in which nothing moves for so long, and for what its size takes to read,
  // is broken off.
  CheckpointWorker(CoordinatorEndpoint endpoint, Duration silence, Post post);
  ~CheckpointWorker();  // breaks off what runs

  void fetch(const FetchCheckpoint& effect);
  void hash(const HashCheckpoint& effect);
  void upload(const UploadCheckpoint& effect);
  void remove(const DeleteCheckpointFolder& effect);

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    std::string folder;
    std::atomic<bool> cancelled{false};
    grpc::ClientContext context;
    std::function<void(Job&)> work;
    std::function<Input(Bytes done, Bytes total)> how_far;  // of transfers

    std::atomic<bool> stalled{false};
    std::atomic<std::int64_t> done{0}, total{0};
    std::atomic<Clock::time_point> moved_at{Clock::time_point::max()};  // max: does not travel yet
    std::int64_t said = -1;                                             // by the watching thread
    void is_at(Bytes now) {
      done = now.count();
      moved_at = Clock::now();
    }
  };
  struct Lane {  // one thread and its queue
    std::deque<std::shared_ptr<Job>> jobs;
    std::shared_ptr<Job> running;
    std::thread thread;
  };

  void enqueue(Lane& lane, std::shared_ptr<Job> job);
  void run(Lane& lane);
  void watch();
  void look_at(Job& job);
  void cancel(Lane& lane, const std::string& folder);
  Status do_fetch(Job& job, CheckpointPartId part);
  Status do_upload(Job& job, const UploadCheckpoint& effect);
  Status ended(const Job& job, const grpc::Status& status) const;

  const CoordinatorEndpoint endpoint_;
  const Duration silence_;
  const Post post_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  Lane fetches_, uploads_;
  std::thread watcher_;
};

}  // namespace shoal::agent
