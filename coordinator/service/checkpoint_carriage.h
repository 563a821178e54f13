// Checkpoint files between an agent that does not reach the object store and that store, carried by
// the coordinator: the agent sends and gets chunks, as with a coordinator that keeps checkpoints on
// its disk. Nothing stays here: of an upload one part at a time lies in a file without a name,
// which can be sent again when the store hiccups; a download passes through.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <grpcpp/support/sync_stream.h>

#include "coordinator/service/shelves/checkpoint_bucket.h"
#include "proto/agent.pb.h"

namespace shoal::coordinator {

struct CarriageHooks {
  std::function<void(Bytes size)> works_on;  // this much goes to the store before the next chunk
  std::function<void(Bytes now)> is_at;      // so much of the whole was received
};

// Says where the agent continues, reads its chunks to the end of the files, and puts them into the
// store. When the stream is interrupted, it returns kCancelled; what the store has by then stays.
Status carry_to_store(CheckpointBucket::Upload& upload, const std::vector<FileEntry>& files,
                      const std::string& folder,
                      grpc::ServerReaderWriter<v1::CheckpointReceived, v1::CheckpointUpload>& agent,
                      const CarriageHooks& hooks);

// Chunks of the files back to back from byte `from` on, behind a header that was written.
Status carry_from_store(const CheckpointBucket& bucket, CheckpointId id,
                        const std::vector<FileEntry>& files, Bytes from,
                        grpc::ServerWriter<v1::CheckpointUpload>& agent,
                        const CarriageHooks& hooks);

}  // namespace shoal::coordinator
