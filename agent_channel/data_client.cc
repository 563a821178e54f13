#include "agent_channel/data_client.h"

#include <chrono>
#include <thread>

#include "base/backoff.h"
#include "base/digest.h"
#include "proto/trainer.grpc.pb.h"
#include "threads/clock.h"
#include "wire/metadata.h"

namespace shoal::agent_channel {
namespace {

// The agent's own fetch ends before.
constexpr auto kAskLimit = std::chrono::seconds(150);
constexpr Duration kRetryFirst = milliseconds(100), kRetryMax = seconds(5);
constexpr int kMessageBytesMax = static_cast<int>(data::kManifestBytesMax) + (1 << 20);

std::shared_ptr<grpc::Channel> channel_to(const std::string& socket_path) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, static_cast<int>(kRetryFirst.ms()));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(kRetryFirst.ms()));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, static_cast<int>(kRetryMax.ms()));
  return grpc::CreateCustomChannel("unix:" + socket_path, grpc::InsecureChannelCredentials(),
                                   arguments);
}

bool is_passing(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::CANCELLED;
}

Code code_of(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::NOT_FOUND:
      return Code::kNotFound;
    case grpc::StatusCode::DATA_LOSS:
      return Code::kDataLoss;
    case grpc::StatusCode::UNIMPLEMENTED:
      return Code::kIncompatible;
    default:
      return is_passing(status) ? Code::kUnavailable : Code::kInternal;
  }
}

}  // namespace

DataClient::DataClient(const ControlOptions& line, Duration patience)
    : nonce_(line.nonce), patience_(patience), channel_(channel_to(line.socket_path)) {}

grpc::Status DataClient::ask(const std::string& manifest, std::int64_t shard, std::int64_t chunk,
                             std::string& data) const {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kAskLimit);
  context.AddMetadata(wire::kTrainerNonceName, nonce_);
  v1::ReadDataRequest request;
  request.set_manifest(manifest);
  request.set_shard(static_cast<std::int32_t>(shard));
  request.set_chunk(chunk);
  v1::ReadDataAnswer answer;
  const grpc::Status status =
      v1::TrainerHost::NewStub(channel_)->ReadData(&context, request, &answer);
  if (status.ok()) data = std::move(*answer.mutable_data());
  return status;
}

Result<std::string> DataClient::read(const std::string& manifest, std::int64_t shard,
                                     std::int64_t chunk) const {
  const Instant until = steady_now() + patience_;
  Prng prng(Digester().add(nonce_).add(shard).add(chunk).finish().low);
  Backoff pauses(kRetryFirst, kRetryMax);
  for (;;) {
    std::string data;
    const grpc::Status status = ask(manifest, shard, chunk, data);
    if (status.ok()) return data;
    const bool again = is_passing(status) && steady_now() < until;
    if (!again) return Error{code_of(status), status.error_message(), "", ""};
    std::this_thread::sleep_for(std::chrono::nanoseconds(pauses.next(prng).ns));
  }
}

data::ReadStored read_over(const ControlOptions& line) {
  return [client = std::make_shared<const DataClient>(line)](
             const std::string& manifest, std::int64_t shard, std::int64_t chunk) {
    return client->read(manifest, shard, chunk);
  };
}

}  // namespace shoal::agent_channel
