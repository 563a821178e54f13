// Both ends of a transfer. Both know the length from the plan; a chunk that is out of place
// fails the transfer, one that is missing or damaged is asked for again.
#include "outer_opt/transport/momentum_transfer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/transfer_patience.h"
#include "outer_opt/core/codec/entropy.h"
#include "outer_opt/core/round/topology.h"
#include "outer_opt/transport/stream_messages.h"
#include "proto/peer.pb.h"
#include "threads/clock.h"
#include "threads/sleep.h"

namespace shoal::outer_opt {
namespace {

// Small enough that a slow line still shows movement: 26 s a chunk at 10 kB/s.
constexpr std::size_t kChunkValues = 1 << 16;
constexpr std::size_t kTrialBytes = 4 << 20;  // about what buffers take without a wait
constexpr Duration kRetryFirst = milliseconds(200), kRetryCap = seconds(5);
// A stream in which something moves is not ended for its length.
constexpr Duration kTransferLimit = seconds(24 * 3600);
constexpr Duration kAskLimit = seconds(10);
// Longer than any reader waits: who asked has gone by then, or his connection.
constexpr Duration kWriteLimit = seconds(60);

// The holder's end of a transfer. A write waits while the connection is full, so the time that
// writes take tells what the line carries.
class ChunkWriter {
 public:
  explicit ChunkWriter(wire::stream::BlockingStream& stream) : stream_(stream) {}

  // From value `from` on. Error: who asked went away.
  Status write(std::span<const float> values, std::size_t from) {
    for (std::size_t first = from; first < values.size(); first += kChunkValues) {
      const auto part = values.subspan(first, std::min(kChunkValues, values.size() - first));
      v1::MomentumChunk chunk;
      chunk.set_first(static_cast<std::int64_t>(first));
      chunk.set_checksum(checksum_of(std::as_bytes(part)));
      put_values(part, chunk);
      sent_ += chunk.values().size();
      if (Status sent = stream_.write({}, body_of(chunk), kWriteLimit); !sent.ok()) return sent;
    }
    return {};
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

  wire::stream::BlockingStream& stream_;
  EntropyCoder coder_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::size_t sent_ = 0;
};

Error error_of(const Error& error) {
  const auto with = [&](std::string remedy) {
    return Error{error.code, "the momentum could not be fetched: " + error.message, "",
                 std::move(remedy)};
  };
  switch (error.code) {
    case Code::kNotFound:
      return with("ask for another source");
    case Code::kConflict:
      return with("ask for its newest round");
    case Code::kCancelled:
      return with("");
    default:
      return with("try another source");
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

// The next chunk; nothing when the holder has ended.
Result<std::optional<v1::MomentumChunk>> next_chunk(wire::stream::BlockingStream& stream,
                                                    Duration silence) {
  const auto message = stream.read(silence);
  if (!message.ok() && message.error().code == Code::kDeadlineExceeded && !stream.is_over()) {
    return Error{Code::kUnavailable, "the holder sent nothing more"};
  }
  if (!message.ok()) return error_of(message.error());
  if (!*message) return std::optional<v1::MomentumChunk>();
  v1::MomentumChunk chunk;
  if (!parse((*message)->body, chunk)) return no_message();
  return std::optional(std::move(chunk));
}

// One stream, until it ends or breaks.
Status read_stream(wire::stream::BlockingStream& stream, Duration silence, Assembler& assembler) {
  assembler.begin_stream();
  for (;;) {
    const auto chunk = next_chunk(stream, silence);
    if (!chunk.ok()) return chunk.error();
    if (!*chunk) break;
    if (Status good = assembler.add(**chunk); !good.ok()) return good;
  }
  stream.end();
  if (assembler.complete()) return {};
  return Error{Code::kIncompatible, "the holder's range has another size"};
}

// A chunk that was spoiled on its way is sent again, like one that did not come.
bool is_worth_a_retry(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kDataLoss || error.code == Code::kCancelled;
}

v1::FetchMomentumRequest request_for(const MomentumHolder& holder, const RoundKey& key,
                                     const Assembler& assembler) {
  v1::FetchMomentumRequest request;
  request.set_replica(holder.replica.n);
  put(key, *request.mutable_key());
  request.set_first(holder.first);
  request.set_count(holder.count);
  request.set_from(static_cast<std::int64_t>(assembler.values()));
  return request;
}

// One try, on a connection of its own.
Status try_once(const DialHolder& dial, const v1::FetchMomentumRequest& request, Duration silence,
                Assembler& assembler, const std::stop_token& stop) {
  const auto reached = dial();
  if (!reached.ok()) return error_of(reached.error());
  const auto stream =
      wire::stream::BlockingStream::open(*reached->pair, kMomentumPurpose, kTransferLimit);
  const std::stop_callback on_stop(stop, [&] {
    stream->cancel({Code::kCancelled, "the requester was stopped", "", ""});
  });
  Status status = stream->write({}, body_of(request), kAskLimit);
  status = status.ok() ? read_stream(*stream, silence, assembler) : error_of(status.error());
  if (!status.ok()) stream->cancel(status.error());
  reached->let_go();
  return status;
}

}  // namespace

Status serve_momentum(const MomentumHandler& handler, wire::stream::BlockingStream& stream) {
  stream.set_limit(kTransferLimit);
  const auto message = stream.read(kAskLimit);
  if (!message.ok()) return message.error();
  v1::FetchMomentumRequest request;
  if (!*message || !parse((*message)->body, request)) return no_message();
  if (!handler) return Error{Code::kNotFound, "this trainer keeps no momentum"};
  Status sent;
  const ValueRange range{request.first(), request.count()};
  const auto from =
      static_cast<std::size_t>(std::clamp<std::int64_t>(request.from(), 0, range.count));
  const Status status = handler(
      ReplicaId(request.replica()), key_of(request.key()), range,
      [&](std::span<const float> values) { sent = ChunkWriter(stream).write(values, from); });
  return status.ok() ? sent : status;
}

Status fetch_momentum_from(const DialHolder& dial, const MomentumHolder& holder,
                           const RoundKey& key, const FetchPatience& limits, std::span<float> out,
                           std::stop_token stop) {
  Assembler assembler(out);
  TransferPatience patience(limits.broken, kRetryFirst, kRetryCap);
  Prng prng(static_cast<std::uint64_t>(steady_now().ns));
  patience.begin(steady_now());
  for (;;) {
    const Status status =
        try_once(dial, request_for(holder, key, assembler), limits.silent, assembler, stop);
    if (status.ok() || stop.stop_requested() || !is_worth_a_retry(status.error())) return status;
    patience.moved(steady_now(), Bytes(static_cast<std::int64_t>(assembler.values())));
    const auto again = patience.broke(steady_now(), prng);
    if (!again || !sleep_unless_stopped(*again - steady_now(), stop)) return status;
  }
}

}  // namespace shoal::outer_opt
