#include "agent/host/file_range.h"

#include <algorithm>

#include "data/manifest.h"
#include "proto/agent.grpc.pb.h"

namespace shoal::agent {
namespace {

v1::GetFileRequest request_of(const FileRange& range) {
  v1::GetFileRequest request;
  request.set_replica(range.replica.n);
  request.set_sha256(range.sha256);
  request.set_from(range.from);
  request.set_count(range.count);
  return request;
}

}  // namespace

grpc::Status read_range(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                        const FileRange& range, std::string& content) {
  const v1::GetFileRequest request = request_of(range);
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

grpc::Status read_url(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                      const FileRange& range, SignedUrl& place) {
  const auto stub = v1::AgentService::NewStub(channel);
  const auto reader = stub->GetFile(&context, request_of(range));
  v1::FileBytes message;
  const bool came = reader->Read(&message);
  if (came) context.TryCancel();  // one message is all
  const grpc::Status status = reader->Finish();
  if (!came) return status;
  if (message.url().empty()) {
    return {grpc::StatusCode::UNIMPLEMENTED, "the coordinator named no place of the shard"};
  }
  constexpr std::int64_t kMost = 7 * 86'400;  // as S3 has it
  place = {message.url(), seconds(std::clamp<std::int64_t>(message.valid_s(), 0, kMost))};
  return grpc::Status::OK;
}

}  // namespace shoal::agent
