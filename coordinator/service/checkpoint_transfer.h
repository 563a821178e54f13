// Checkpoint files between agents and the coordinator's disk: PutCheckpoint and GetCheckpoint. Both
// block their (few) threads, which gRPC keeps apart from the ones that serve the agents' streams. A
// transfer whose peer falls silent is cancelled by watch().
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include "base/flat_map.h"
#include "coordinator/service/agent_port.h"
#include "coordinator/service/checkpoint_files.h"
#include "proto/agent.pb.h"

namespace shoal::coordinator {

class CheckpointTransfer {
 public:
  static constexpr std::size_t kTransfersMax = 8;
  static constexpr std::chrono::seconds kSilenceMax{60};
  static constexpr std::chrono::seconds kAnnouncementMax{
      10};  // upload before CheckpointWritten arrived

  CheckpointTransfer(CheckpointFiles& files, InputPort& inputs,
                     const std::vector<CheckpointRecord>& known);

  void changed(const CheckpointRecord& checkpoint);  // the record is durable; thread-safe
  void remove(CheckpointId checkpoint);              // deletes the files; thread-safe

  grpc::Status put(grpc::ServerContext* context, grpc::ServerReader<v1::CheckpointUpload>* reader,
                   v1::CheckpointUploadResult* result);
  grpc::Status get(grpc::ServerContext* context, const v1::GetCheckpointRequest* request,
                   grpc::ServerWriter<v1::CheckpointUpload>* writer);

  void watch();  // cancels the silent ones; call about once a second
  void stop();   // cancels all and refuses further ones

 private:
  // A transfer in progress, from construction to destruction.
  struct Active {
    Active(CheckpointTransfer& owner, grpc::ServerContext* context);
    ~Active();
    void alive() { last_moved = std::chrono::steady_clock::now(); }

    CheckpointTransfer& owner;
    grpc::ServerContext* const context;
    std::atomic<std::chrono::steady_clock::time_point> last_moved;
    bool admitted = false;
  };

  // The stage whose files are being uploaded, and how far that part is.
  struct Announced {
    StageIndex stage = 0, stages = 1;
    bool stored = false;
  };
  Result<Announced> announced(CheckpointId id, const std::vector<FileEntry>& files);
  Status receive(Active& active, CheckpointId id, const Announced& part,
                 const std::vector<FileEntry>& files,
                 grpc::ServerReader<v1::CheckpointUpload>* reader, Bytes& stored);

  CheckpointFiles& files_;
  InputPort& inputs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  FlatMap<CheckpointId, CheckpointRecord> known_;  // writing, uploading, stored
  std::set<Active*> active_;
  bool stopping_ = false;
};

}  // namespace shoal::coordinator
