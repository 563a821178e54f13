// Does the slow work on checkpoints for the core, off its thread: fetches on one thread, hashes and
// uploads on another, each in order. A job whose folder is deleted meanwhile is broken off first.
#pragma once

#include <atomic>
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

  CheckpointWorker(CoordinatorEndpoint endpoint, Post post);
  ~CheckpointWorker();  // breaks off what runs

  void fetch(const FetchCheckpoint& effect);
  void hash(const HashCheckpoint& effect);
  void upload(const UploadCheckpoint& effect);
  void remove(const DeleteCheckpointFolder& effect);

 private:
  struct Job {
    std::string folder;
    std::atomic<bool> cancelled{false};
    grpc::ClientContext context;
    std::function<void(Job&)> work;
  };
  struct Lane {  // one thread and its queue
    std::deque<std::shared_ptr<Job>> jobs;
    std::shared_ptr<Job> running;
    std::thread thread;
  };

  void enqueue(Lane& lane, std::string folder, std::function<void(Job&)> work);
  void run(Lane& lane);
  void cancel(Lane& lane, const std::string& folder);
  Status do_fetch(Job& job, CheckpointPartId part);
  Status do_upload(Job& job, const UploadCheckpoint& effect);

  const CoordinatorEndpoint endpoint_;
  const Post post_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  Lane fetches_, uploads_;
};

}  // namespace shoal::agent
