// Does the slow work on checkpoints for the core, off its thread: fetches on one thread, hashes and
// uploads on another, each in order. Before a folder is deleted, the work on it is cancelled.
//
// A transfer continues where an earlier one was interrupted, even after a restart of the agent: an
// upload at the byte that the coordinator names, a fetch behind what lies beside its folder
// (transfer/file_receiver.h). A partial fetch that nobody waits for any more is kept for the next
// fetch of the same files; the kKeptMax newest ones are kept. Where the coordinator keeps
// checkpoints in an object store, it hands out presigned requests, and the files travel between
// this host and the store (part_transfer.h), unless the coordinator is asked to carry the files
// (store_reach.h). A third thread reports the progress of the transfers about once a second, and
// cancels a transfer in which nothing moves.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <grpcpp/grpcpp.h>

#include "agent/core/io.h"
#include "agent/host/coordinator_link.h"
#include "agent/host/program_user.h"
#include "agent/host/store_reach.h"
#include "objects/http.h"
#include "proto/agent.pb.h"
#include "threads/mutex.h"
#include "transfer/file_receiver.h"

namespace shoal::agent {

class CheckpointWorker {
 public:
  using Post = std::function<void(Input)>;  // any thread

  static constexpr std::size_t kKeptMax = 2;

  // A transfer is cancelled when nothing has moved for `silence` plus the time that it takes to
  // read files of its size. `reader`: another user who reads the fetched files. `proxy`: towards
  // object stores, as in objects::Reach.
  CheckpointWorker(CoordinatorEndpoint endpoint, Duration silence, Post post,
                   std::optional<ProgramUser> reader = {}, std::string proxy = {});
  ~CheckpointWorker();  // cancels what runs

  void fetch(const FetchCheckpoint& effect);
  void hash(const HashCheckpoint& effect);
  void upload(const UploadCheckpoint& effect);
  void remove(const DeleteCheckpointFolder& effect);
  std::string works_on();  // for people, also while it ends

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    explicit Job(objects::ClientOptions options) : store(std::move(options)) {}

    std::string folder;
    std::atomic<bool> cancelled{false};
    grpc::ClientContext context;
    objects::Client store;  // of presigned requests
    std::function<void(Job&)> work;
    std::function<Input(Bytes done, Bytes total)> how_far;  // of transfers
    void cancel() {
      cancelled = true;
      break_off();
    }
    void break_off() {
      context.TryCancel();
      store.stop();
    }

    std::atomic<bool> stalled{false};
    std::atomic<std::int64_t> done{0}, total{0};
    std::atomic<Clock::time_point> moved_at{Clock::time_point::max()};  // max: does not travel yet
    std::int64_t said = -1;                                             // by the watching thread
    void is_at(Bytes now) {
      done = now.count();
      moves();
    }
    void moves() { moved_at = Clock::now(); }  // though nothing is done for sure
  };
  // One thread and its queue.
  class Lane {
   public:
    explicit Lane(const Post& post) : post_(post), thread_([this] { run(); }) {}
    ~Lane();  // stops, and waits for the thread

    void enqueue(std::shared_ptr<Job> job) SHOAL_EXCLUDES(mutex_);
    void cancel(const std::string& folder) SHOAL_EXCLUDES(mutex_);  // whether it runs or waits
    std::shared_ptr<Job> running() SHOAL_EXCLUDES(mutex_);          // null: none
    void stop() SHOAL_EXCLUDES(mutex_);                             // cancels what runs

   private:
    void run() SHOAL_EXCLUDES(mutex_);

    const Post& post_;
    Mutex mutex_;
    CondVar changed_;
    std::deque<std::shared_ptr<Job>> jobs_ SHOAL_GUARDED_BY(mutex_);
    std::shared_ptr<Job> running_ SHOAL_GUARDED_BY(mutex_);
    bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
    std::thread thread_;  // last: it uses the others
  };

  void watch(const std::stop_token& stop);
  void look_at(Job& job);
  Status do_fetch(Job& job, CheckpointPartId part);
  Status do_upload(Job& job, const UploadCheckpoint& effect);
  std::shared_ptr<Job> make_job(const std::string& folder) const;
  Status get_files(Job& job, bool direct, grpc::ClientReader<v1::CheckpointUpload>& reader,
                   FileReceiver& receiver);
  void learn_reach(const Job& job, const Status& ended, bool direct, bool moved);
  Status ended(const Job& job, const grpc::Status& status) const;

  const CoordinatorEndpoint endpoint_;
  const Duration silence_;
  const Post post_;
  const std::optional<ProgramUser> reader_;
  const std::string proxy_;
  StoreReach reach_;
  Lane fetches_{post_}, uploads_{post_};
  std::jthread watcher_;  // last: it uses the others
};

}  // namespace shoal::agent
