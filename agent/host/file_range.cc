#include "agent/host/file_range.h"

#include "data/manifest.h"
#include "proto/agent.grpc.pb.h"

namespace shoal::agent {

grpc::Status read_range(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                        const FileRange& range, std::string& content) {
  v1::GetFileRequest request;
  request.set_replica(range.replica.n);
  request.set_sha256(range.sha256);
  request.set_from(range.from);
  request.set_count(range.count);
  const auto stub = v1::AgentService::NewStub(channel);
  const auto reader = stub->GetFile(&context, request);
  const std::size_t most =
      range.count > 0 ? static_cast<std::size_t>(range.count) : data::kManifestBytesMax;
  bool too_long = false;
  for (v1::FileBytes message; !too_long && reader->Read(&message);) {
    too_long = content.size() + message.data().size() > most;
    if (!too_long) content += message.data();
  }
  if (too_long) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (too_long) return {grpc::StatusCode::DATA_LOSS, "more bytes came than were asked for"};
  return status;
}

}  // namespace shoal::agent
