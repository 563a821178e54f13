// Both ends of FetchMomentum. Both know the length from the plan; a chunk that is out of place
// fails the transfer, one that is missing or damaged is asked for again.
#include "outer_opt/transport/momentum_transfer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "base/transfer_patience.h"
#include "outer_opt/core/codec/entropy.h"
#include "outer_opt/core/round/topology.h"
#include "threads/clock.h"
#include "threads/sleep.h"

namespace shoal::outer_opt {
namespace {

// Small enough that a slow line still shows movement: 26 s a chunk at 10 kB/s.
constexpr std::size_t kChunkValues = 1 << 16;
constexpr std::size_t kTrialBytes = 4 << 20;  // about what buffers take without a wait
constexpr Duration kRetryFirst = milliseconds(200), kRetryCap = seconds(5);
constexpr Duration kLookEvery = milliseconds(250);

// The holder's end of a transfer. A write waits while the connection is full, so the time that
// writes take tells what the line carries.
class ChunkWriter {
 public:
  explicit ChunkWriter(grpc::ServerWriter<v1::MomentumChunk>* writer) : writer_(writer) {}

  // From value `from` on. False: who asked went away.
  bool write(std::span<const float> values, std::size_t from) {
    for (std::size_t first = from; first < values.size(); first += kChunkValues) {
      const auto part = values.subspan(first, std::min(kChunkValues, values.size() - first));
      v1::MomentumChunk chunk;
      chunk.set_first(static_cast<std::int64_t>(first));
      chunk.set_checksum(checksum_of(std::as_bytes(part)));
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

  void put_values(std::span<const float> part, v1::MomentumChunk& chunk) {
    const auto bytes = std::as_bytes(part);
    std::string& to = *chunk.mutable_values();
    if (is_slow()) {
      to.resize(bytes.size());
      to.resize(coder_.encode(CodecKind::kFp32, bytes, std::as_writable_bytes(std::span(to))));
      if (!to.empty()) return chunk.set_coded_count(std::ssize(part));
    }
    to.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  grpc::ServerWriter<v1::MomentumChunk>* const writer_;
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
    return Error{code, "the momentum could not be fetched: " + status.error_message(), "",
                 std::move(remedy)};
  };
  switch (status.error_code()) {
    case grpc::StatusCode::NOT_FOUND:
      return with(Code::kNotFound, "ask for another source");
    case grpc::StatusCode::FAILED_PRECONDITION:
      return with(Code::kConflict, "ask for its newest round");
    case grpc::StatusCode::CANCELLED:
      return with(Code::kCancelled, "");
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return with(Code::kDeadlineExceeded, "try another source");
    case grpc::StatusCode::UNAVAILABLE:
      return with(Code::kUnavailable, "try another source");
    default:
      return with(Code::kInternal, "try another source");
  }
}

// Puts chunks in their place. The first chunk of a stream may go back to where the holder had to
// begin; nothing may be left out.
class Assembler {
 public:
  explicit Assembler(std::span<float> out) : out_(out) {}

  void begin_stream() { fresh_ = true; }

  Status add(const v1::MomentumChunk& chunk) {
    const auto first = static_cast<std::size_t>(std::max<std::int64_t>(chunk.first(), 0));
    if (std::exchange(fresh_, false)) filled_ = std::min(filled_, first);
    if (chunk.first() != static_cast<std::int64_t>(filled_)) {
      return Error{Code::kInvalidArgument, "a chunk of the momentum came out of its place"};
    }
    const auto bytes = std::as_bytes(std::span(chunk.values()));
    const bool coded = chunk.coded_count() != 0;
    const std::size_t count =
        coded ? static_cast<std::size_t>(chunk.coded_count()) : bytes.size() / sizeof(float);
    const std::span<float> rest = out_.subspan(filled_);
    if (count == 0 || count > rest.size() || (!coded && bytes.size() % sizeof(float) != 0)) {
      return Error{Code::kIncompatible, "the holder's range has another size"};
    }
    const auto target = std::as_writable_bytes(rest.first(count));
    const std::span<const std::byte> pieces[] = {bytes};
    Status good;
    if (coded) good = coder_.decode(CodecKind::kFp32, pieces, target);
    if (!coded) std::ranges::copy(bytes, target.begin());
    if (!good.ok() || checksum_of(target) != chunk.checksum()) {
      return Error{Code::kDataLoss, "a chunk of the momentum does not match its checksum"};
    }
    filled_ += count;
    return {};
  }

  bool complete() const { return filled_ == out_.size(); }
  std::size_t values() const { return filled_; }

 private:
  std::span<float> out_;
  EntropyCoder coder_;
  std::size_t filled_ = 0;
  bool fresh_ = true;
};

RoundKey key_of(const v1::RoundKey& key) { return {JobId(key.job()), key.epoch(), key.round()}; }

void put(const RoundKey& key, v1::RoundKey& to) {
  to.set_job(key.job.n);
  to.set_epoch(key.epoch);
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
Status read_stream(grpc::ClientReader<v1::MomentumChunk>& reader, grpc::ClientContext& context,
                   Duration silence, Assembler& assembler) {
  SilenceWatch watch(context, silence);
  assembler.begin_stream();
  Status bad;
  for (v1::MomentumChunk chunk; bad.ok() && reader.Read(&chunk); watch.moved()) {
    bad = assembler.add(chunk);
  }
  if (!bad.ok()) context.TryCancel();
  const grpc::Status status = reader.Finish();
  if (!bad.ok()) return bad;
  if (watch.silent()) return Error{Code::kUnavailable, "the holder sent nothing more"};
  if (!status.ok()) return error_of(status);
  if (!assembler.complete())
    return Error{Code::kIncompatible, "the holder's range has another size"};
  return {};
}

// A chunk that was spoiled on its way is sent again, like one that did not come.
bool is_worth_a_retry(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kDataLoss || error.code == Code::kCancelled;
}

// `open` begins a stream for what the assembler has not got yet.
template <typename Open>
Status fetch(const DialHolder& dial, const FetchPatience& limits, std::span<float> out,
             std::stop_token stop, const Open& open) {
  Assembler assembler(out);
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
  return sent ? grpc::Status::OK : grpc::Status(grpc::StatusCode::CANCELLED, "who asked went away");
}

}  // namespace

grpc::Status serve_momentum(const MomentumHandler& handler, const v1::FetchMomentumRequest& request,
                            grpc::ServerWriter<v1::MomentumChunk>* writer) {
  if (!handler) return {grpc::StatusCode::NOT_FOUND, "this trainer keeps no momentum"};
  bool sent = true;
  const ValueRange range{request.first(), request.count()};
  const auto from =
      static_cast<std::size_t>(std::clamp<std::int64_t>(request.from(), 0, range.count));
  const Status status = handler(
      ReplicaId(request.replica()), key_of(request.key()), range,
      [&](std::span<const float> values) { sent = ChunkWriter(writer).write(values, from); });
  return ended(status, sent);
}

Status fetch_momentum_from(const DialHolder& dial, const MomentumHolder& holder,
                           const RoundKey& key, const FetchPatience& patience, std::span<float> out,
                           std::stop_token stop) {
  return fetch(
      dial, patience, out, stop,
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
