// Files of a checkpoint between this host and an object store, by requests that the coordinator
// has signed (PutCheckpoint and GetCheckpoint of agent.proto). The coordinator hears how each of
// them goes, and says what is next.
//
// An object store that refuses a presigned request is kUnavailable here: its time was over, or the
// coordinator's key was replaced; the coordinator signs another.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include "messages/messages.h"
#include "objects/http.h"
#include "proto/agent.pb.h"
#include "transfer/file_receiver.h"

namespace shoal::agent {

struct PartHooks {
  std::function<void(Bytes now)> stored;  // the store has so much, for sure
  std::function<void()> moves;            // something is being sent
};

// Carries out the requests of `first`, and of each answer of the coordinator, until it has all
// files. Errors are those of the store, of the files (kDataLoss), or kUnavailable: the stream
// broke.
Status put_parts(
    const objects::Client& store, const std::string& folder, const std::vector<FileEntry>& files,
    grpc::ClientReaderWriter<v1::CheckpointUpload, v1::CheckpointReceived>& coordinator,
    const v1::CheckpointReceived& first, const PartHooks& hooks);

// The requests of `coordinator` to their end, for all that `receiver` lacks. kUnavailable: the
// stream broke before that.
Result<std::vector<v1::PresignedRequest>> read_requests(
    grpc::ClientReader<v1::CheckpointUpload>& coordinator, const FileReceiver& receiver);
// Gets the files into `receiver`, behind what is there. Errors are those of the store and of the
// disk.
Status get_parts(const objects::Client& store, const std::vector<v1::PresignedRequest>& requests,
                 FileReceiver& receiver, const std::function<void()>& moved);

}  // namespace shoal::agent
