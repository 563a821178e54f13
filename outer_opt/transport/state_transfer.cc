// Both ends of FetchState. Both ends know the lengths from the job; a chunk that is out of place
// fails the transfer, one that is missing or damaged is asked for again, so that a joiner never
// starts from a torn state.
#include "outer_opt/transport/state_transfer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "base/transfer_patience.h"
#include "outer_opt/core/codec/entropy.h"
#include "outer_opt/core/round/topology.h"
#include "threads/sleep.h"

namespace shoal::outer_opt {
namespace {

// Small enough that a slow line still shows movement: 26 s a chunk at 10 kB/s.
constexpr std::size_t kChunkValues = 1 << 16;
constexpr std::size_t kTrialBytes = 4 << 20;  // about what buffers take without a wait
constexpr Duration kRetryFirst = milliseconds(200), kRetryCap = seconds(5);
constexpr Duration kLookEvery = milliseconds(250);

constexpr std::array kTensors = {v1::STATE_TENSOR_ANCHOR, v1::STATE_TENSOR_MOMENTUM,
                                 v1::STATE_TENSOR_ADAM_M, v1::STATE_TENSOR_ADAM_V};

// The donor's end of a transfer. A write waits while the connection is full, so the time that
// writes take tells what the line carries.
class ChunkWriter {
 public:
  explicit ChunkWriter(grpc::ServerWriter<v1::StateChunk>* writer) : writer_(writer) {}

  // From value `from` on. False: the joiner went away.
  bool write(v1::StateTensor tensor, std::span<const float> values, std::size_t from,
             std::int64_t adam_step) {
    for (std::size_t first = from; first < values.size(); first += kChunkValues) {
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

// Places chunks into the sink, one vector after the other. The first chunk of a stream may go back
// to where the donor had to begin; nothing may be left out.
class Assembler {
 public:
  explicit Assembler(StateSink& sink)
      : sink_(sink), targets_{sink.anchor, sink.momentum, sink.adam_m, sink.adam_v} {
    for (const std::span<float> target : targets_) all_ += target.size();
  }

  void begin_stream() { fresh_ = true; }

  Status add(const v1::StateChunk& chunk) {
    if (std::exchange(fresh_, false)) go_back_to(chunk);
    skip_full();
    if (tensor_ == targets_.size() || kTensors[tensor_] != chunk.tensor() ||
        chunk.first() != static_cast<std::int64_t>(filled_)) {
      return Error{Code::kInvalidArgument, "a chunk of the state came out of its place"};
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
    if (sink_.moved) sink_.moved(bytes_of(values()), bytes_of(all_));
    return {};
  }

  bool complete() {
    skip_full();
    return tensor_ == targets_.size();
  }
  // Values in the order of the vectors.
  std::size_t values() const {
    std::size_t before = filled_;
    for (std::size_t i = 0; i < tensor_; ++i) before += targets_[i].size();
    return before;
  }

 private:
  static Bytes bytes_of(std::size_t values) {
    return Bytes(static_cast<std::int64_t>(values * sizeof(float)));
  }
  void skip_full() {
    while (tensor_ < targets_.size() && filled_ == targets_[tensor_].size()) ++tensor_, filled_ = 0;
  }
  void go_back_to(const v1::StateChunk& chunk) {
    const auto it = std::find(kTensors.begin(), kTensors.end(), chunk.tensor());
    const auto tensor = static_cast<std::size_t>(it - kTensors.begin());
    const auto first = static_cast<std::size_t>(std::max<std::int64_t>(chunk.first(), 0));
    const bool behind = tensor < tensor_ || (tensor == tensor_ && first < filled_);
    if (behind && first <= targets_[tensor].size()) tensor_ = tensor, filled_ = first;
  }

  StateSink& sink_;
  EntropyCoder coder_;
  std::array<std::span<float>, 4> targets_;
  std::size_t tensor_ = 0, filled_ = 0, all_ = 0;
  bool fresh_ = true;
};

RoundKey key_of(const v1::RoundKey& key) { return {JobId(key.job()), key.lineage(), key.round()}; }

void put(const RoundKey& key, v1::RoundKey& to) {
  to.set_job(key.job.n);
  to.set_lineage(key.lineage);
  to.set_round(key.round);
}

// Cancels a call in which nothing moves.
class SilenceWatch {
 public:
  SilenceWatch(grpc::ClientContext& context, Duration limit)
      : thread_([this, &context, limit](std::stop_token stop) {
          while (sleep_unless_stopped(kLookEvery, stop)) {
            if (Clock::now() - moved_at_.load() < std::chrono::nanoseconds(limit.ns)) continue;
            silent_ = true;
            return context.TryCancel();
          }
        }) {}
  void moved() { moved_at_ = Clock::now(); }
  bool silent() const { return silent_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<Clock::time_point> moved_at_{Clock::now()};
  std::atomic<bool> silent_{false};
  std::jthread thread_;  // last: it ends before what it uses
};

// One stream, until it ends or breaks.
Status read_stream(grpc::ClientReader<v1::StateChunk>& reader, grpc::ClientContext& context,
                   Duration silence, Assembler& assembler) {
  SilenceWatch watch(context, silence);
  assembler.begin_stream();
  Status bad;
  for (v1::StateChunk chunk; bad.ok() && reader.Read(&chunk); watch.moved()) {
    bad = assembler.add(chunk);
  }
  if (!bad.ok()) context.TryCancel();
  const grpc::Status status = reader.Finish();
  if (!bad.ok()) return bad;
  if (watch.silent()) return Error{Code::kUnavailable, "the donor sent nothing more"};
  if (!status.ok()) return error_of(status);
  if (!assembler.complete())
    return Error{Code::kIncompatible, "the donor's model has another size"};
  return {};
}

// A chunk that was spoiled on its way is sent again, like one that did not come.
bool is_worth_a_retry(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kDataLoss || error.code == Code::kCancelled;
}

Instant steady_now() {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

// `open` begins a stream for what the assembler has not got yet.
template <typename Open>
Status fetch(const DialDonor& dial, const FetchPatience& limits, StateSink& sink,
             std::stop_token stop, const Open& open) {
  Assembler assembler(sink);
  TransferPatience patience(limits.broken, kRetryFirst, kRetryCap);
  Prng prng(static_cast<std::uint64_t>(steady_now().ns));
  patience.begin(steady_now());
  for (;;) {
    grpc::ClientContext context;
    const std::stop_callback on_stop(stop, [&] { context.TryCancel(); });
    const auto stub = v1::PeerService::NewStub(dial());
    const auto reader = open(*stub, context, assembler);
    const Status status = read_stream(*reader, context, limits.silent, assembler);
    if (status.ok() || stop.stop_requested() || !is_worth_a_retry(status.error())) return status;
    patience.moved(steady_now(), Bytes(static_cast<std::int64_t>(assembler.values())));
    const auto again = patience.broke(steady_now(), prng);
    if (!again || !sleep_unless_stopped(*again - steady_now(), stop)) return status;
  }
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
    auto skip = static_cast<std::size_t>(std::max<std::int64_t>(request.from(), 0));
    const std::size_t shared = state.anchor.size() + state.momentum.size();
    if (request.adam_step() != state.adam_step) skip = std::min(skip, shared);
    ChunkWriter chunks(writer);
    for (std::size_t i = 0; sent && i < vectors.size(); ++i) {
      const std::size_t from = std::min(skip, vectors[i].size());
      skip -= from;
      sent = chunks.write(kTensors[i], vectors[i], from, state.adam_step);
    }
  });
  return ended(status, sent);
}

Status fetch_state_from(const DialDonor& dial, ReplicaId donor, const RoundKey& key,
                        const FetchPatience& patience, StateSink& sink, std::stop_token stop) {
  return fetch(
      dial, patience, sink, stop,
      [&](v1::PeerService::Stub& stub, grpc::ClientContext& context, const Assembler& assembler) {
        v1::FetchStateRequest request;
        request.set_replica(donor.n);
        put(key, *request.mutable_key());
        request.set_from(static_cast<std::int64_t>(assembler.values()));
        request.set_adam_step(sink.adam_step);
        return stub.FetchState(&context, request);
      });
}

grpc::Status serve_momentum(const MomentumDonor& donor, const v1::FetchMomentumRequest& request,
                            grpc::ServerWriter<v1::StateChunk>* writer) {
  if (!donor) return {grpc::StatusCode::NOT_FOUND, "this trainer keeps no momentum"};
  bool sent = true;
  const ValueRange range{request.first(), request.count()};
  const auto from =
      static_cast<std::size_t>(std::clamp<std::int64_t>(request.from(), 0, range.count));
  const Status status =
      donor(ReplicaId(request.replica()), key_of(request.key()), range,
            [&](std::span<const float> values) {
              sent = ChunkWriter(writer).write(v1::STATE_TENSOR_MOMENTUM, values, from, 0);
            });
  return ended(status, sent);
}

Status fetch_momentum_from(const DialDonor& dial, const MomentumHolder& holder, const RoundKey& key,
                           const FetchPatience& patience, std::span<float> out,
                           std::stop_token stop) {
  StateSink sink{{}, out, {}, {}};
  return fetch(
      dial, patience, sink, stop,
      [&](v1::PeerService::Stub& stub, grpc::ClientContext& context, const Assembler& assembler) {
        v1::FetchMomentumRequest request;
        request.set_replica(holder.replica.n);
        put(key, *request.mutable_key());
        request.set_first(holder.first);
        request.set_count(holder.count);
        request.set_from(static_cast<std::int64_t>(assembler.values()));
        return stub.FetchMomentum(&context, request);
      });
}

}  // namespace shoal::outer_opt
