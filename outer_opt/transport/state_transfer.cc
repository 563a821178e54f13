// Both ends of FetchState. Both ends know the lengths from the job; a chunk that is missing,
// out of place or damaged fails the transfer, so that a joiner never starts from a torn state.
#include "outer_opt/transport/state_transfer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kChunkValues = 1 << 18;
constexpr auto kTransferLimit = std::chrono::minutes(30);

constexpr std::array kTensors = {v1::STATE_TENSOR_ANCHOR, v1::STATE_TENSOR_MOMENTUM,
                                 v1::STATE_TENSOR_ADAM_M, v1::STATE_TENSOR_ADAM_V};

bool send_vector(v1::StateTensor tensor, std::span<const float> values, std::int64_t adam_step,
                 grpc::ServerWriter<v1::StateChunk>* writer) {
  for (std::size_t first = 0; first < values.size(); first += kChunkValues) {
    const auto part =
        std::as_bytes(values.subspan(first, std::min(kChunkValues, values.size() - first)));
    v1::StateChunk chunk;
    chunk.set_tensor(tensor);
    chunk.set_first(static_cast<std::int64_t>(first));
    chunk.set_values(part.data(), part.size());
    chunk.set_checksum(checksum_of(part));
    chunk.set_adam_step(adam_step);
    if (!writer->Write(chunk)) return false;
  }
  return true;
}

grpc::StatusCode code_of(Code code) {
  switch (code) {
    case Code::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Code::kConflict:
      return grpc::StatusCode::FAILED_PRECONDITION;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

Error error_of(const grpc::Status& status) {
  const auto with = [&](Code code, std::string remedy) {
    return Error{code, "the state could not be fetched: " + status.error_message(), "",
                 std::move(remedy)};
  };
  switch (status.error_code()) {
    case grpc::StatusCode::NOT_FOUND:
      return with(Code::kNotFound, "ask for another donor");
    case grpc::StatusCode::FAILED_PRECONDITION:
      return with(Code::kConflict, "ask for its newest round");
    case grpc::StatusCode::CANCELLED:
      return with(Code::kCancelled, "");
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return with(Code::kDeadlineExceeded, "try another donor");
    case grpc::StatusCode::UNAVAILABLE:
      return with(Code::kUnavailable, "try another donor");
    default:
      return with(Code::kInternal, "try another donor");
  }
}

// Places chunks into the sink, one vector after the other.
class Assembler {
 public:
  explicit Assembler(StateSink& sink)
      : sink_(sink), targets_{sink.anchor, sink.momentum, sink.adam_m, sink.adam_v} {}

  Status add(const v1::StateChunk& chunk) {
    const auto it = std::find(kTensors.begin(), kTensors.end(), chunk.tensor());
    const auto index = static_cast<std::size_t>(it - kTensors.begin());
    skip_full();
    const bool in_place = index == tensor_ && chunk.first() == static_cast<std::int64_t>(filled_);
    if (tensor_ == targets_.size() || !in_place) {
      return Error{Code::kDataLoss, "a chunk of the state came out of its place"};
    }
    const std::string& bytes = chunk.values();
    const std::span<float> rest = targets_[tensor_].subspan(filled_);
    if (bytes.empty() || bytes.size() % sizeof(float) != 0 || bytes.size() > rest.size_bytes()) {
      return Error{Code::kIncompatible, "the donor's model has another size"};
    }
    if (checksum_of(std::as_bytes(std::span(bytes))) != chunk.checksum()) {
      return Error{Code::kDataLoss, "a chunk of the state does not match its checksum"};
    }
    std::memcpy(rest.data(), bytes.data(), bytes.size());
    filled_ += bytes.size() / sizeof(float);
    sink_.adam_step = chunk.adam_step();
    return {};
  }

  bool complete() {
    skip_full();
    return tensor_ == targets_.size();
  }

 private:
  void skip_full() {
    while (tensor_ < targets_.size() && filled_ == targets_[tensor_].size()) ++tensor_, filled_ = 0;
  }

  StateSink& sink_;
  std::array<std::span<float>, 4> targets_;
  std::size_t tensor_ = 0, filled_ = 0;
};

RoundKey key_of(const v1::RoundKey& key) { return {JobId(key.job()), key.lineage(), key.round()}; }

void put(const RoundKey& key, v1::RoundKey& to) {
  to.set_job(key.job.n);
  to.set_lineage(key.lineage);
  to.set_round(key.round);
}

Status read_all(grpc::ClientReader<v1::StateChunk>& reader, grpc::ClientContext& context,
                StateSink& sink) {
  Assembler assembler(sink);
  Status bad;
  for (v1::StateChunk chunk; bad.ok() && reader.Read(&chunk);) bad = assembler.add(chunk);
  if (!bad.ok()) context.TryCancel();
  const grpc::Status status = reader.Finish();
  if (!bad.ok()) return bad;
  if (!status.ok()) return error_of(status);
  if (!assembler.complete())
    return Error{Code::kIncompatible, "the donor's model has another size"};
  return {};
}

grpc::Status ended(const Status& status, bool sent) {
  if (!status.ok()) return {code_of(status.error().code), to_string(status.error())};
  return sent ? grpc::Status::OK
              : grpc::Status(grpc::StatusCode::CANCELLED, "the joiner went away");
}

}  // namespace

grpc::Status serve_state(const Donor& donor, const v1::FetchStateRequest& request,
                         grpc::ServerContext* context, grpc::ServerWriter<v1::StateChunk>* writer) {
  if (!donor) return {grpc::StatusCode::NOT_FOUND, "this trainer holds no state yet"};
  bool sent = true;
  const RoundKey key = key_of(request.key());
  const Status status = donor(ReplicaId(request.replica()), key, [&](const DonorState& state) {
    const std::array vectors = {state.anchor, state.momentum, state.adam_m, state.adam_v};
    for (std::size_t i = 0; sent && i < vectors.size(); ++i) {
      sent = send_vector(kTensors[i], vectors[i], state.adam_step, writer);
    }
  });
  return ended(status, sent);
}

Status fetch_state_from(const std::shared_ptr<grpc::Channel>& channel, ReplicaId donor,
                        const RoundKey& key, StateSink& sink, std::stop_token stop) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTransferLimit);
  const std::stop_callback on_stop(stop, [&] { context.TryCancel(); });
  v1::FetchStateRequest request;
  request.set_replica(donor.n);
  put(key, *request.mutable_key());
  const auto stub = v1::PeerService::NewStub(channel);
  return read_all(*stub->FetchState(&context, request), context, sink);
}

grpc::Status serve_momentum(const MomentumDonor& donor, const v1::FetchMomentumRequest& request,
                            grpc::ServerWriter<v1::StateChunk>* writer) {
  if (!donor) return {grpc::StatusCode::NOT_FOUND, "this trainer keeps no momentum"};
  bool sent = true;
  const ValueRange range{request.first(), request.count()};
  const Status status = donor(ReplicaId(request.replica()), key_of(request.key()), range,
                              [&](std::span<const float> values) {
                                sent = send_vector(v1::STATE_TENSOR_MOMENTUM, values, 0, writer);
                              });
  return ended(status, sent);
}

Status fetch_momentum_from(const std::shared_ptr<grpc::Channel>& channel,
                           const MomentumHolder& holder, const RoundKey& key, std::span<float> out,
                           std::stop_token stop) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTransferLimit);
  const std::stop_callback on_stop(stop, [&] { context.TryCancel(); });
  v1::FetchMomentumRequest request;
  request.set_replica(holder.replica.n);
  put(key, *request.mutable_key());
  request.set_first(holder.first);
  request.set_count(holder.count);
  const auto stub = v1::PeerService::NewStub(channel);
  StateSink sink{{}, out, {}, {}, 0};
  return read_all(*stub->FetchMomentum(&context, request), context, sink);
}

}  // namespace shoal::outer_opt
