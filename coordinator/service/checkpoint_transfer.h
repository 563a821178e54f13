// Checkpoint files between agents and the coordinator's disk: PutCheckpoint and GetCheckpoint. Both
// block their (few) threads, which gRPC keeps apart from the ones that serve the agents' streams. A
// transfer in which nothing moves for Limits::silence is cancelled by watch().
//
// With an object store (checkpoint_bucket.h) new checkpoints go there: the agent gets presigned
// requests, a few at a time, and says how each of them goes. An agent that does not reach the store
// takes none: its files are carried (checkpoint_carriage.h). What lies in a folder is still read
// from there.
//
// Both continue where an earlier transfer was interrupted. An upload is told first how much is
// here, and then, about once a second, how much is safe on the disk; a download is asked for from a
// byte on.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include "base/flat_map.h"
#include "base/transfer_patience.h"
#include "coordinator/service/agent_port.h"
#include "coordinator/service/checkpoint_files.h"
#include "coordinator/service/shelves/checkpoint_bucket.h"
#include "proto/agent.pb.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

class CheckpointTransfer {
 public:
  using UploadStream = grpc::ServerReaderWriter<v1::CheckpointReceived, v1::CheckpointUpload>;

  static constexpr std::size_t kTransfersMax = 64;
  static constexpr std::size_t kTransfersPerAgent = 8;
  static constexpr std::chrono::seconds kAnnouncementMax{
      10};  // upload before CheckpointWritten arrived
  static constexpr std::chrono::seconds kAcknowledgeEvery{1};
  static constexpr Bytes kAcknowledgeBytes = mebibytes(64);  // or after so many
  static constexpr std::size_t kRequestsAhead = 2;           // that an agent has not carried out

  // `bucket` may be null: then everything goes to `files`.
  CheckpointTransfer(CheckpointFiles& files, CheckpointBucket* bucket, InputPort& inputs,
                     std::chrono::milliseconds silence, const std::vector<CheckpointRecord>& known);

  void changed(const CheckpointRecord& checkpoint);  // the record is durable; thread-safe
  void remove(CheckpointId checkpoint);              // deletes the files; thread-safe

  // `caller` is who its certificate says; none where nobody asked. It uploads what its replicas
  // write, and gets checkpoints of the jobs that it works for.
  grpc::Status put(grpc::ServerContext* context, AgentId caller, UploadStream* stream);
  grpc::Status get(grpc::ServerContext* context, AgentId caller,
                   const v1::GetCheckpointRequest* request,
                   grpc::ServerWriter<v1::CheckpointUpload>* writer);

  void watch();  // cancels the silent ones; call about once a second
  void stop();   // cancels all and refuses further ones

 private:
  // A transfer in progress, from construction to destruction.
  struct Active {
    Active(CheckpointTransfer& owner, grpc::ServerContext* context, AgentId caller);
    ~Active();
    void alive() { last_moved = std::chrono::steady_clock::now(); }
    // What was received before is read again, unseen.
    void works_on(Bytes size) {
      last_moved = std::chrono::steady_clock::now() +
                   std::chrono::nanoseconds(stall_for(Duration{}, size).ns);
    }

    CheckpointTransfer& owner;
    grpc::ServerContext* const context;
    const AgentId caller;
    std::atomic<std::chrono::steady_clock::time_point> last_moved;
    bool admitted = false;
  };

  // The part whose files are being uploaded, and how far it is.
  struct Announced {
    CheckpointId checkpoint;
    StageIndex stage = 0, stages = 1;
    ReplicaId writer;
    bool stored = false;
  };
  Result<Announced> announced(CheckpointId id, const std::vector<FileEntry>& files)
      SHOAL_EXCLUDES(mutex_);
  Status receive(Active& active, const Announced& part, const std::vector<FileEntry>& files,
                 UploadStream* stream) SHOAL_EXCLUDES(mutex_);
  Status acknowledge(const Announced& part, CheckpointFiles::Upload& upload, UploadStream* stream);
  Status receive_in_bucket(Active& active, const Announced& part,
                           const std::vector<FileEntry>& files, bool by_requests,
                           UploadStream* stream) SHOAL_EXCLUDES(mutex_);
  Status carry(Active& active, const Announced& part, CheckpointBucket::Upload& upload,
               const std::vector<FileEntry>& files, UploadStream* stream);
  Status hand_out(const Announced& part, CheckpointBucket::Upload& upload, std::size_t most,
                  UploadStream* stream);
  grpc::Status send_requests(CheckpointId id, v1::CheckpointUpload& header,
                             const std::vector<FileEntry>& files, Bytes from,
                             grpc::ServerWriter<v1::CheckpointUpload>* writer);
  bool is_in_bucket(CheckpointId id) const { return bucket_ != nullptr && !files_.has(id); }
  void end_others(const Active& self, const Announced& part) SHOAL_EXCLUDES(mutex_);

  CheckpointFiles& files_;
  CheckpointBucket* const bucket_;
  InputPort& inputs_;
  const std::chrono::milliseconds silence_;
  Mutex mutex_;
  CondVar changed_;
  FlatMap<CheckpointId, CheckpointRecord> known_
      SHOAL_GUARDED_BY(mutex_);  // writing, uploading, stored
  // What each of them uploads, once that is known.
  std::map<Active*, std::optional<std::pair<CheckpointId, StageIndex>>> active_
      SHOAL_GUARDED_BY(mutex_);
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal::coordinator
