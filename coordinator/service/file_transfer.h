// Bytes of uploaded files for agents: GetFile. An agent reads what a job of one of its replicas
// refers to: its code, and its datasets with their manifests and shards. Everything else is not
// found. One call hands out kBytesMax at most, so a reader that was cut off asks for the rest. Of a
// shard that lies in an object store it hands out a signed URL.
//
// Calls block the few threads that gRPC keeps apart from those that serve the agents' streams. One
// whose reader takes nothing for `silence` is cancelled by watch().
//
// Threads: all methods may be called by any thread.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include "coordinator/service/agent_port.h"
#include "coordinator/service/files/data_stores.h"
#include "coordinator/service/files/file_store.h"
#include "coordinator/store/reader.h"
#include "proto/agent.pb.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

class FileTransfer {
 public:
  static constexpr std::size_t kCallsMax = 64, kCallsPerAgent = 16;
  static constexpr Bytes kBytesMax = mebibytes(64);
  static constexpr std::size_t kPieceBytes = std::size_t{256} << 10;

  // `files` and `inputs` must outlive it.
  FileTransfer(FileStore& files, InputPort& inputs, std::unique_ptr<Reader> reader,
               std::chrono::milliseconds silence, DataStores stores = {})
      : files_(files),
        inputs_(inputs),
        silence_(silence),
        stores_(std::move(stores)),
        reader_(std::move(reader)) {}

  grpc::Status get(grpc::ServerContext* context, AgentId caller, const v1::GetFileRequest& request,
                   grpc::ServerWriter<v1::FileBytes>* writer);

  void watch();  // cancels the silent ones; call about once a second

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    AgentId caller;
    Clock::time_point moved;
  };
  bool admit(grpc::ServerContext* context, AgentId caller) SHOAL_EXCLUDES(mutex_);
  void moved(grpc::ServerContext* context) SHOAL_EXCLUDES(mutex_);
  void end(grpc::ServerContext* context) SHOAL_EXCLUDES(mutex_);
  // What a job refers to, by SHA-256: where it is read; empty: here.
  using References = std::map<std::string, std::string>;
  // A file that is here, or where else it is.
  struct Allowed {
    FileRecord file;
    std::string url = {};
  };
  Result<Allowed> allowed(AgentId caller, ReplicaId replica, const std::string& sha256);
  Result<std::optional<std::string>> reference(JobId job, const std::string& sha256)
      SHOAL_EXCLUDES(mutex_);
  References references_of(const JobSpec& spec) const;
  grpc::Status send_url(const std::string& url, grpc::ServerWriter<v1::FileBytes>* writer) const;
  grpc::Status send(grpc::ServerContext* context, const FileRecord& file, Bytes from, Bytes count,
                    grpc::ServerWriter<v1::FileBytes>* writer);

  FileStore& files_;
  InputPort& inputs_;
  const std::chrono::milliseconds silence_;
  const DataStores stores_;
  Mutex mutex_;
  const std::unique_ptr<Reader> reader_ SHOAL_GUARDED_BY(mutex_);
  std::map<grpc::ServerContext*, Call> calls_ SHOAL_GUARDED_BY(mutex_);
  std::map<JobId, References> references_ SHOAL_GUARDED_BY(mutex_);  // of some jobs
};

}  // namespace shoal::coordinator
