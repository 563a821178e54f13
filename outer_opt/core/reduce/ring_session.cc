// The rules of one ring attempt; ring_session.h says what they are. What goes over each of the two
// connections, and when, is fixed by the plan: four courses of places, each with a position. A
// chunk is summed by one Work, then sent, then replaced by its average, so no two works touch the
// same values.
#include "outer_opt/core/reduce/ring_session.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"

namespace shoal::outer_opt {

Status RingSession::check(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                          const ReduceInput& input, std::size_t average_count) {
  if (plan.topology != Topology::kRing) {
    return refused_plan("topology", std::string("must be ring, got ") + to_string(plan.topology));
  }
  if (plan.aggregator != Aggregator::kMean) {
    return refused_plan("aggregator",
                        std::string("must be mean, got ") + to_string(plan.aggregator));
  }
  if (Status s = check_plan_members(plan, self, frame_values, average_count); !s.ok()) return s;
  return check_dense_plan(plan, self, input);
}

RingSession::RingSession(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                         const ReduceInput& input, std::span<float> average)
    : ReduceSession(plan, self, frame_values, average),
      pseudo_gradient_(input.pseudo_gradient),
      before_(around(self_, -1)),
      after_(around(self_, 1)) {
  SHOAL_CHECK(check(plan, self, frame_values, input, average.size()).ok());
  double total = 0;
  for (const double share : share_) total += share;
  inverse_ = total > 0 ? static_cast<float>(1 / total) : 0.0f;
  factor_ = static_cast<float>(share_[self_] * plan_.members[self_].clip_factor);
  lay_out_chunks();
  started_here_ = course(around(self_, -1), -1, 1);
  const int others = members() - 1;
  sums_out_ = course(around(self_, -1), -1, others);
  sums_in_ = course(around(self_, -2), -1, others);
  averages_out_ = course(self_, 1, others);
  averages_in_ = course(around(self_, 1), 1, others);
}

void RingSession::lay_out_chunks() {
  std::int64_t chunks = 0;
  std::size_t bytes = 0;
  for (int part = 0; part < members(); ++part) {
    chunk_base_.push_back(chunks);
    const std::int64_t count = chunks_of(plan_.members[part], frame_values_);
    for (std::int64_t chunk = 0; chunk < count; ++chunk) {
      encoded_base_.push_back(bytes);
      bytes += payload_size(
          frame_of_part(plan_, frame_values_, FrameKind::kAverage, self_, part, chunk));
    }
    chunks += count;
  }
  chunks_.resize(static_cast<std::size_t>(chunks));
  checksums_.resize(static_cast<std::size_t>(chunks));
  if (plan_.codec != CodecKind::kFp32) encoded_.resize(bytes);
}

int RingSession::around(int member, int steps) const {
  const int n = members();
  return ((member + steps) % n + n) % n;
}

RingSession::Course RingSession::course(int first_part, int step, int parts) const {
  Course course;
  for (int i = 0; i < parts; ++i) {
    const int part = around(first_part, i * step);
    const std::int64_t count = chunks_of(plan_.members[part], frame_values_);
    for (std::int64_t chunk = 0; chunk < count; ++chunk) course.places.push_back({part, chunk});
  }
  return course;
}

std::size_t RingSession::index(const Place& place) const {
  return static_cast<std::size_t>(chunk_base_[place.part] + place.chunk);
}

FrameRef RingSession::frame_at(FrameKind kind, int peer, const Place& place) const {
  return frame_of_part(plan_, frame_values_, kind, peer, place.part, place.chunk);
}

// ---- sending

bool RingSession::sent_all(int peer, FrameKind kind) const {
  if (peer == self_) return true;
  if (kind == FrameKind::kContribution) return peer != after_ || sums_out_.over();
  return peer != before_ || averages_out_.over();
}

std::optional<FrameRef> RingSession::pull(int peer, FrameKind kind) {
  const bool sum = kind == FrameKind::kContribution;
  Course& course = sum ? sums_out_ : averages_out_;
  const Place place = course.places[course.next];
  Chunk& chunk = chunks_[index(place)];
  if (sum ? !chunk.summed : !chunk.averaged) return std::nullopt;
  if (sum) chunk.sent = true;
  ++course.next;
  return frame_at(kind, peer, place);
}

std::span<const std::byte> RingSession::resident(const FrameRef& frame) const {
  if (plan_.codec == CodecKind::kFp32) {
    return std::as_bytes(std::span<const float>(values(frame.first, frame.count)));
  }
  if (frame.kind == FrameKind::kContribution) return {};
  return std::span<const std::byte>(encoded_).subspan(
      encoded_base_[index({frame.part, frame.chunk})], payload_size(frame));
}

void RingSession::encode(const FrameRef& frame, std::span<std::byte> out) const {
  SHOAL_CHECK(frame.kind == FrameKind::kContribution);
  codec(plan_.codec).encode(values(frame.first, frame.count), out);
}

std::optional<std::uint64_t> RingSession::known_checksum(const FrameRef& frame) const {
  if (frame.kind != FrameKind::kAverage) return std::nullopt;
  return chunks_[index({frame.part, frame.chunk})].payload_checksum;
}

// ---- receiving

std::int64_t RingSession::frames_left(int peer, FrameKind kind) const {
  const bool sums = kind == FrameKind::kContribution;
  if (peer == self_ || peer != (sums ? before_ : after_)) return 0;
  return static_cast<std::int64_t>((sums ? sums_in_ : averages_in_).left());
}

int RingSession::slowest() const {
  const bool before = !lost(before_), after = !lost(after_);
  const std::size_t sums = before ? sums_in_.left() : 0, averages = after ? averages_in_.left() : 0;
  if (sums + averages > 0) return sums >= averages ? before_ : after_;
  if (after && !sums_out_.over()) return after_;
  return before && !averages_out_.over() ? before_ : -1;
}

// An average of a chunk whose sum has not left from here cannot be.
std::optional<FrameRef> RingSession::due(int, FrameKind kind) const {
  if (kind == FrameKind::kContribution) {
    return frame_at(kind, self_, sums_in_.places[sums_in_.next]);
  }
  const Place& place = averages_in_.places[averages_in_.next];
  if (!chunks_[index(place)].sent) return std::nullopt;
  return frame_at(kind, self_, place);
}

std::optional<Work> RingSession::take(int peer, const FrameRef& frame) {
  ++(frame.kind == FrameKind::kContribution ? sums_in_ : averages_in_).next;
  Work work = work_at(frame);
  work.peer = peer;
  return work;
}

std::optional<Work> RingSession::take_local() {
  if (started_here_.over()) return std::nullopt;
  const Place& place = started_here_.places[started_here_.next++];
  Work work = work_at(frame_at(FrameKind::kContribution, self_, place));
  work.fresh = true;
  return work;
}

Work RingSession::work_at(const FrameRef& frame) const {
  Work work;
  work.kind = frame.kind;
  work.part = frame.part;
  work.chunk = frame.chunk;
  work.first = frame.first;
  work.count = frame.count;
  work.last = frame.kind == FrameKind::kContribution && frame.part == self_;
  work.inverse = inverse_;
  return work;
}

void RingSession::settle(const Work& work, const WorkResult& result) {
  const std::size_t at = index({work.part, work.chunk});
  chunks_[at].summed = true;
  if (work.kind == FrameKind::kContribution && !work.last) return;
  chunks_[at].averaged = true;
  chunks_[at].payload_checksum = result.payload_checksum;
  checksums_[at] = result.values_checksum;
  ++averaged_;
}

// ---- arithmetic

WorkResult RingSession::run(const Work& work, Pieces payload) {
  WorkResult result;
  result.status = work.kind == FrameKind::kAverage ? keep_average(work, payload, result)
                                                   : add(work, payload, result);
  return result;
}

std::span<std::byte> RingSession::encoded_at(const Work& work) {
  if (plan_.codec == CodecKind::kFp32) return {};
  const auto count = static_cast<std::size_t>(work.count);
  return std::span(encoded_).subspan(encoded_base_[index({work.part, work.chunk})],
                                     encoded_size(plan_.codec, count));
}

// What came so far of the chunk, and the own contribution to it.
Status RingSession::add(const Work& work, Pieces payload, WorkResult& result) {
  AverageEncoder encoder(codec(plan_.codec), work.inverse, encoded_at(work));
  const auto add_to_run = [&](const ValueRun& run) {
    const std::span<float> sum = values(work.first, work.count).subspan(run.first, run.count);
    Status s = add_run(work, run, sum);
    if (work.last) encoder.add(sum);
    return s;
  };
  const auto count = static_cast<std::size_t>(work.count);
  const Status status = work.header
                            ? read_payload(codec(plan_.codec), *work.header, payload, add_to_run)
                            : for_each_run(count, add_to_run);
  return status.ok() && work.last ? encoded(encoder, result) : status;
}

Status RingSession::add_run(const Work& work, const ValueRun& run, std::span<float> sum) const {
  if (work.fresh) {
    std::fill(sum.begin(), sum.end(), 0.0f);
  } else if (Status s = codec(plan_.codec).decode(run.bytes, sum); !s.ok()) {
    return s;
  }
  if (!contributes(self_)) return {};
  std::array<float, kRunValues> scratch;
  const auto own = pseudo_gradient_.run(work.first + static_cast<std::int64_t>(run.first),
                                        std::span(scratch).first(run.count));
  if (!codec(CodecKind::kFp32).accumulate(std::as_bytes(own), factor_, sum).ok()) {
    return Error{Code::kInternal,
                 "this replica's pseudo-gradient holds a value that is not finite"};
  }
  return all_finite(sum) ? Status() : Error{Code::kInternal, "the sum overflows fp32"};
}

// The bytes are kept as they are, to be passed on.
Status RingSession::keep_average(const Work& work, Pieces payload, WorkResult& result) {
  if (Status s = decode_average(work, payload, result); !s.ok()) return s;
  std::span<std::byte> keep = encoded_at(work);
  for (const auto& piece : payload) {
    if (keep.empty() || piece.empty()) continue;
    std::memcpy(keep.data(), piece.data(), piece.size());
    keep = keep.subspan(piece.size());
  }
  return {};
}

}  // namespace shoal::outer_opt
