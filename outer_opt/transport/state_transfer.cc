// Both ends of FetchState. Both ends know the lengths from the job; a chunk that is missing,
// out of place or damaged fails the transfer, so that a joiner never starts from a torn state.
#include "outer_opt/transport/state_transfer.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "outer_opt/core/codec/entropy.h"
#include "outer_opt/core/round/topology.h"

namespace shoal::outer_opt {
namespace {

constexpr std::size_t kChunkValues = 1 << 18;
constexpr std::size_t kTrialBytes = 4 << 20;  // about what buffers take without a wait
constexpr auto kTransferLimit = std::chrono::minutes(30);

constexpr std::array kTensors = {v1::STATE_TENSOR_ANCHOR, v1::STATE_TENSOR_MOMENTUM,
                                 v1::STATE_TENSOR_ADAM_M, v1::STATE_TENSOR_ADAM_V};

// The donor's end of a transfer. A write waits while the connection is full, so the time that
// writes take tells what the line carries.
class ChunkWriter {
 public:
  explicit ChunkWriter(grpc::ServerWriter<v1::StateChunk>* writer) : writer_(writer) {}

  // False: the joiner went away.
  bool write(v1::StateTensor tensor, std::span<const float> values, std::int64_t adam_step) {
    for (std::size_t first = 0; first < values.size(); first += kChunkValues) {
      const auto part = values.subspan(first, std::min(kChunkValues, values.size() - first));
      v1::StateChunk chunk;
      chunk.set_tensor(tensor);
      chunk.set_first(static_cast<std::int64_t>(first));
      chunk.set_checksum(checksum_of(std::as_bytes(part)));
      chunk.set_adam_step(adam_step);
      put_values(part, chunk);
      sent_ += chunk.values().size();
      if (!writer_->Write(chunk)) return false;
    }
    return true;
  }

 private:
  bool is_slow() const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun_;
    return sent_ >= kTrialBytes && static_cast<double>(sent_) < kEntropyBelow * spent.count();
  }

  void put_values(std::span<const float> part, v1::StateChunk& chunk) {
    const auto bytes = std::as_bytes(part);
    std::string& to = *chunk.mutable_values();
    if (is_slow()) {
      to.resize(bytes.size());
      to.resize(coder_.encode(CodecKind::kFp32, bytes, std::as_writable_bytes(std::span(to))));
      if (!to.empty()) return chunk.set_coded_count(std::ssize(part));
    }
    to.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  grpc::ServerWriter<v1::StateChunk>* const writer_;
  EntropyCoder coder_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::size_t sent_ = 0;
};

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
    const auto bytes = std::as_bytes(std::span(chunk.values()));
    const bool coded = chunk.coded_count() != 0;
    const std::size_t count =
        coded ? static_cast<std::size_t>(chunk.coded_count()) : bytes.size() / sizeof(float);
    const std::span<float> rest = targets_[tensor_].subspan(filled_);
    if (count == 0 || count > rest.size() || (!coded && bytes.size() % sizeof(float) != 0)) {
      return Error{Code::kIncompatible, "the donor's model has another size"};
    }
    const auto target = std::as_writable_bytes(rest.first(count));
    const std::span<const std::byte> pieces[] = {bytes};
    Status good;
    if (coded) good = coder_.decode(CodecKind::kFp32, pieces, target);
    if (!coded) std::ranges::copy(bytes, target.begin());
    if (!good.ok() || checksum_of(target) != chunk.checksum()) {
      return Error{Code::kDataLoss, "a chunk of the state does not match its checksum"};
    }
    filled_ += count;
    sink_.received += Bytes(static_cast<std::int64_t>(bytes.size()));
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
  EntropyCoder coder_;
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
    ChunkWriter chunks(writer);
    for (std::size_t i = 0; sent && i < vectors.size(); ++i) {
      sent = chunks.write(kTensors[i], vectors[i], state.adam_step);
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
                                sent =
                                    ChunkWriter(writer).write(v1::STATE_TENSOR_MOMENTUM, values, 0);
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
  StateSink sink{{}, out, {}, {}};
  return read_all(*stub->FetchMomentum(&context, request), context, sink);
}

}  // namespace shoal::outer_opt
