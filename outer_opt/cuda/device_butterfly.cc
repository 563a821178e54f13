// See device_butterfly.h. A frame that arrives is copied to pinned memory and queued; its checksum
// is computed by the host while the device works. A frame with a wrong checksum may so be added;
// the attempt is over then, and nobody looks at the sum.
#include "outer_opt/cuda/device_butterfly.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"

namespace shoal::outer_opt {
namespace {

// Into pinned memory, one piece after the other. false: they do not have that size.
bool stage(Pieces payload, std::span<std::byte> pinned) {
  for (const auto& piece : payload) {
    if (piece.size() > pinned.size()) return false;
    std::ranges::copy(piece, pinned.begin());
    pinned = pinned.subspan(piece.size());
  }
  return pinned.empty();
}

Status verdict(const FrameFlags& flags) {
  if (flags.payload != 0) {
    return Error{Code::kDataLoss, "a value or a scale of the frame is not finite", "", ""};
  }
  if (flags.own != 0) {
    return Error{Code::kInternal, "this replica's pseudo-gradient holds a value that is not finite",
                 "", ""};
  }
  if (flags.average != 0) {
    return Error{Code::kInternal, "the average overflows fp32", "", ""};
  }
  return {};
}

}  // namespace

bool DeviceButterfly::suits(const ReducePlan& plan) {
  const bool summed =
      plan.topology == Topology::kButterfly || plan.topology == Topology::kParamServer;
  const bool dense = std::ranges::find(kDenseCodecs, plan.codec) != kDenseCodecs.end();
  return summed && dense && plan.aggregator == Aggregator::kMean;
}

DeviceButterfly::DeviceButterfly(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                                 const ReduceInput& input, std::span<float> average,
                                 LaneShelf& lanes, std::shared_ptr<const void> owner)
    : ButterflySession(plan, self, frame_values, input, average, Keep::kAll),
      owner_(std::move(owner)),
      pseudo_gradient_(input.pseudo_gradient.in_place()),
      lanes_(lanes),
      senders_(plan.members.size()) {
  SHOAL_CHECK(suits(plan) && origin_ == 0, "reducers have no device");
}

DeviceButterfly::~DeviceButterfly() {
  for (Sender& sender : senders_) {
    if (!sender.lane) continue;
    // A lane that failed is not used again.
    if (sender.lane->queue->wait()) lanes_.give_back(std::move(sender.lane));
  }
}

// ---- sending

std::span<const std::byte> DeviceButterfly::resident(const FrameRef& frame) const {
  if (frame.kind == FrameKind::kContribution) return {};
  return encoded_at(frame.chunk, frame.count);
}

void DeviceButterfly::start_encoding(Sender& sender, const FrameRef& frame) const {
  Lane& lane = *sender.lane;
  const auto count = static_cast<std::size_t>(frame.count);
  lane.queue->encode(plan_.codec, pseudo_gradient_.data() + frame.first, count,
                     lane.encoded.data());
  lane.queue->download(lane.encoded.data(), payload_size(frame), lane.pinned_out.data());
  sender.ahead = frame.chunk;
}

// What a device that fails leaves is no encoding of any codec, so the receiver refuses it.
void DeviceButterfly::encode(const FrameRef& frame, std::span<std::byte> out) const {
  SHOAL_CHECK(frame.kind == FrameKind::kContribution);
  Sender& sender = senders_[static_cast<std::size_t>(frame.peer)];
  std::fill(out.begin(), out.end(), std::byte{0xff});
  if (!sender.lane) {
    auto lane = lanes_.take(static_cast<std::size_t>(frame_values_));
    if (!lane) return;
    sender.lane = std::move(*lane);
  }
  if (sender.ahead != frame.chunk) start_encoding(sender, frame);
  sender.ahead.reset();
  if (!sender.lane->queue->wait()) return;
  std::memcpy(out.data(), sender.lane->pinned_out.data(), out.size());
  const std::int64_t next = frame.chunk + 1;
  if (next <
      outer_opt::chunks_of(plan_.members[static_cast<std::size_t>(frame.part)], frame_values_)) {
    start_encoding(sender,
                   frame_of_part(plan_, frame_values_, frame.kind, frame.peer, frame.part, next));
  }
}

// ---- arithmetic

WorkResult DeviceButterfly::run(const Work& work, Pieces payload) {
  WorkResult result;
  auto lane = lanes_.take(static_cast<std::size_t>(frame_values_));
  if (!lane) {
    result.status = Error{Code::kInternal, to_string(lane.error()), "", ""};
    return result;
  }
  result.status = run_in(**lane, work, payload, result);
  lanes_.give_back(std::move(*lane));
  return result;
}

Status DeviceButterfly::run_in(Lane& lane, const Work& work, Pieces payload, WorkResult& result) {
  DeviceQueue& queue = *lane.queue;
  queue.clear(lane.flags.data(), sizeof(FrameFlags));
  if (work.header) {
    const auto in = bytes_of(lane.pinned_in, work);
    if (!stage(payload, in)) {
      return Error{Code::kDataLoss, "the payload has not the size that its values take", "", ""};
    }
    queue.upload(in.data(), in.size(), lane.encoded.data());
  }
  if (work.kind == FrameKind::kContribution) {
    queue_sum(lane, work);
    if (work.last) queue_encode(lane, work);
  } else {
    queue.decode(plan_.codec, lane.encoded.data(), static_cast<std::size_t>(work.count),
                 average_at(work), &lane.flags.data()->payload);
  }
  const bool averaged = work.last || work.kind == FrameKind::kAverage;
  if (averaged && plan_.codec != CodecKind::kFp32) {
    queue.download(average_at(work), static_cast<std::size_t>(work.count) * sizeof(float),
                   lane.pinned_values.data());
  }
  queue.download(lane.flags.data(), sizeof(FrameFlags), lane.pinned_flags.data());
  const Status intact = work.header ? check_payload(*work.header, payload) : Status();
  if (Status done = queue.wait(); !done)
    return Error{Code::kInternal, done.error().message, "", ""};
  if (!intact) return intact;
  if (Status good = verdict(*lane.pinned_flags.data()); !good) return good;
  return collect(lane, work, result);
}

// What is added, in the order of the plan's members.
void DeviceButterfly::queue_sum(Lane& lane, const Work& work) {
  DeviceQueue& queue = *lane.queue;
  float* sum = average_at(work);
  const auto count = static_cast<std::size_t>(work.count);
  if (work.fresh) queue.clear(sum, count * sizeof(float));
  for (int i = 0; i < work.term_count; ++i) {
    const auto [member, factor] = work.terms[static_cast<std::size_t>(i)];
    cuda::PartialStatistics* statistics =
        lane.statistics.data() + static_cast<std::size_t>(i) * cuda::kStatisticsParts;
    const float* own = pseudo_gradient_.data() + work.first;
    if (member != self_) {
      queue.accumulate(plan_.codec, lane.encoded.data(), count, factor, sum,
                       &lane.flags.data()->payload);
      queue_squares(lane, lane.encoded.data(), count, &lane.flags.data()->payload, statistics);
    } else if (plan_.codes_own) {
      queue.encode(plan_.codec, own, count, lane.coded.data());
      queue.accumulate(plan_.codec, lane.coded.data(), count, factor, sum, &lane.flags.data()->own);
      queue_squares(lane, lane.coded.data(), count, &lane.flags.data()->own, statistics);
    } else {
      queue.add(own, count, factor, sum, &lane.flags.data()->own);
      queue.measure(own, count, statistics);
    }
  }
  if (work.term_count == 0) return;
  queue.download(lane.statistics.data(),
                 static_cast<std::size_t>(work.term_count) * cuda::kStatisticsParts *
                     sizeof(cuda::PartialStatistics),
                 lane.pinned_statistics.data());
}

void DeviceButterfly::queue_squares(Lane& lane, const std::byte* encoded, std::size_t count,
                                    int* damaged, cuda::PartialStatistics* statistics) {
  lane.queue->decode(plan_.codec, encoded, count, lane.decoded.data(), damaged);
  lane.queue->measure(lane.decoded.data(), count, statistics);
}

void DeviceButterfly::queue_encode(Lane& lane, const Work& work) {
  DeviceQueue& queue = *lane.queue;
  float* sum = average_at(work);
  const auto count = static_cast<std::size_t>(work.count);
  queue.scale(work.inverse, count, sum);
  queue.encode(plan_.codec, sum, count, lane.encoded.data());
  queue.decode(plan_.codec, lane.encoded.data(), count, sum, &lane.flags.data()->average);
  queue.download(lane.encoded.data(), bytes_of(lane.pinned_out, work).size(),
                 lane.pinned_out.data());
}

Status DeviceButterfly::collect(Lane& lane, const Work& work, WorkResult& result) {
  for (int i = 0; i < work.term_count; ++i) {
    const auto statistics = lane.pinned_statistics.span().subspan(
        static_cast<std::size_t>(i) * cuda::kStatisticsParts, cuda::kStatisticsParts);
    const double norm = cuda::statistics_of(statistics).norm;
    result.squares[static_cast<std::size_t>(i)] = norm * norm;
  }
  if (work.kind == FrameKind::kAverage) {
    result.payload_checksum = work.header->checksum;
  } else if (work.last) {
    const auto encoded = bytes_of(lane.pinned_out, work);
    std::ranges::copy(encoded, encoded_at(work.chunk, work.count).begin());
    const std::span<const std::byte> pieces[] = {encoded};
    result.payload_checksum = payload_checksum(pieces);
  } else {
    return {};
  }
  const auto values = lane.pinned_values.span().first(static_cast<std::size_t>(work.count));
  const std::span<const std::byte> as_bytes[] = {std::as_bytes(values)};
  result.values_checksum =
      plan_.codec == CodecKind::kFp32 ? result.payload_checksum : payload_checksum(as_bytes);
  return {};
}

std::span<std::byte> DeviceButterfly::bytes_of(const DeviceMemory<std::byte>& memory,
                                               const Work& work) const {
  return memory.span().first(encoded_size(plan_.codec, static_cast<std::size_t>(work.count)));
}

}  // namespace shoal::outer_opt
