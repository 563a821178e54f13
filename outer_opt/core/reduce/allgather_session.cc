// The rules of one all-gather; allgather_session.h says what they are. A chunk is averaged by one
// Work once all its frames are stored, so no two works touch the same values or bytes.
#include "outer_opt/core/reduce/allgather_session.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "outer_opt/core/codec/sparse2.h"

namespace shoal::outer_opt {

Status AllgatherSession::check(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                               const ReduceInput& input, std::size_t average_count) {
  if (plan.topology != Topology::kAllgather) {
    return refused_plan("topology",
                        std::string("must be allgather, got ") + to_string(plan.topology));
  }
  if (plan.codec != CodecKind::kSparse2) {
    return refused_plan("codec", std::string("must be sparse2, got ") + to_string(plan.codec));
  }
  if (plan.aggregator != Aggregator::kMean) {
    return refused_plan("aggregator",
                        std::string("must be mean, got ") + to_string(plan.aggregator));
  }
  if (Status s = check_plan_members(plan, self, frame_values, average_count); !s.ok()) return s;
  if (frame_values % static_cast<std::int64_t>(kSparseChunk) != 0) {
    return refused_plan("frame_values", "must be a multiple of 4096 with sparse2, got " +
                                            std::to_string(frame_values));
  }
  for (const ReduceMember& member : plan.members) {
    const std::string name = to_string(member.replica);
    if (member.part_count != 0) return refused_plan("members.part_count", name + " owns a part");
    if (member.address.empty()) return refused_plan("members.address", name + " has none");
  }
  const bool contributes = plan.members[index_of(plan, self)].weight > 0;
  if (contributes && input.encoded.size() != sparse2_size(average_count)) {
    return refused_plan("members.weight",
                        to_string(self) + " is to contribute but has no encoding of that length");
  }
  return {};
}

AllgatherSession::AllgatherSession(const ReducePlan& plan, ReplicaId self,
                                   std::int64_t frame_values, const ReduceInput& input,
                                   std::span<float> average)
    : ReduceSession(plan, self, frame_values, average),
      chunks_((plan.value_count + frame_values - 1) / frame_values),
      encoded_(input.encoded) {
  SHOAL_CHECK(check(plan, self, frame_values, input, average.size()).ok());
  peers_.resize(plan_.members.size());
  for (int i = 0; i < members(); ++i) {
    if (i == self_ || !contributes(i)) continue;
    ++due_;
    peers_[i].encoded.resize(sparse2_size(average.size()));
  }
  arrived_.resize(static_cast<std::size_t>(chunks_));
  squares_.resize(arrived_.size() * plan_.members.size());
  checksums_.resize(static_cast<std::size_t>(chunks_));
}

FrameRef AllgatherSession::frame_at(int peer, int sender, std::int64_t chunk) const {
  const std::int64_t first = chunk * frame_values_;
  const std::int64_t count = std::min(frame_values_, plan_.value_count - first);
  return {FrameKind::kContribution, peer, sender, chunk, first, count};
}

std::span<const std::byte> AllgatherSession::part_of(std::span<const std::byte> encoded,
                                                     std::int64_t first, std::int64_t count) {
  return encoded.subspan(sparse2_size(static_cast<std::size_t>(first)),
                         sparse2_size(static_cast<std::size_t>(count)));
}

// ---- sending

std::optional<FrameRef> AllgatherSession::pull(int peer, FrameKind) {
  return frame_at(peer, self_, peers_[peer].sent++);
}

bool AllgatherSession::sent_all(int peer, FrameKind kind) const {
  if (peer == self_ || kind == FrameKind::kAverage || !contributes(self_)) return true;
  return peers_[peer].sent == chunks_;
}

std::span<const std::byte> AllgatherSession::resident(const FrameRef& frame) const {
  return part_of(encoded_, frame.first, frame.count);
}

// ---- receiving

std::int64_t AllgatherSession::frames_left(int peer, FrameKind kind) const {
  if (peer == self_ || kind == FrameKind::kAverage || !contributes(peer)) return 0;
  return chunks_ - peers_[peer].taken;
}

int AllgatherSession::slowest() const {
  int slowest = -1;
  std::int64_t least = 0;
  for (int i = 0; i < members(); ++i) {
    if (i == self_ || lost(i)) continue;
    const std::int64_t owes = contributes(i) ? chunks_ - peers_[i].taken : 0;
    const std::int64_t leaves = contributes(self_) ? chunks_ - peers_[i].sent : 0;
    const std::int64_t behind = owes > 0 ? chunks_ + owes : leaves;
    if (behind > least) slowest = i, least = behind;
  }
  return slowest;
}

std::optional<FrameRef> AllgatherSession::due(int peer, FrameKind) const {
  return frame_at(self_, peer, peers_[peer].taken);
}

std::optional<Work> AllgatherSession::take(int peer, const FrameRef& frame) {
  ++peers_[peer].taken;
  Work work;
  work.peer = work.part = peer;
  work.chunk = frame.chunk;
  work.first = frame.first;
  work.count = frame.count;
  return work;
}

std::optional<Work> AllgatherSession::take_local() {
  if (begun_ == chunks_ || arrived_[begun_] < due_) return std::nullopt;
  const FrameRef place = frame_at(self_, self_, begun_++);
  Work work;
  work.part = self_;
  work.chunk = place.chunk;
  work.first = place.first;
  work.count = place.count;
  work.last = true;
  return work;
}

void AllgatherSession::settle(const Work& work, const WorkResult& result) {
  if (!work.last) {
    ++arrived_[work.chunk];
    squares_[work.chunk * plan_.members.size() + static_cast<std::size_t>(work.peer)] =
        result.squares[0];
    return;
  }
  checksums_[work.chunk] = result.values_checksum;
  ++averaged_;
}

// ---- arithmetic

WorkResult AllgatherSession::run(const Work& work, Pieces payload) {
  WorkResult result;
  if (!work.last) {
    result.status = store(work, payload, result);
    return result;
  }
  result.status = average(work);
  const std::span<const float> values = average_.subspan(work.first, work.count);
  const std::span<const std::byte> pieces[] = {std::as_bytes(values)};
  result.values_checksum = payload_checksum(pieces);
  return result;
}

// Copies a frame to its place, and checks that it can be decoded while its sender is known.
Status AllgatherSession::store(const Work& work, Pieces payload, WorkResult& result) {
  if (Status s = check_payload(*work.header, payload); !s.ok()) return s;
  std::size_t at = sparse2_size(static_cast<std::size_t>(work.first));
  for (const auto& piece : payload) {
    if (!piece.empty()) std::memcpy(&peers_[work.peer].encoded[at], piece.data(), piece.size());
    at += piece.size();
  }
  const auto stored = part_of(peers_[work.peer].encoded, work.first, work.count);
  return sparse2_squares(stored, static_cast<std::size_t>(work.count), result.squares[0]);
}

std::vector<double> AllgatherSession::squares() const {
  std::vector<double> sums(plan_.members.size());
  for (std::size_t i = 0; i < squares_.size(); ++i) sums[i % sums.size()] += squares_[i];
  return sums;
}

Status AllgatherSession::average(const Work& work) const {
  std::vector<SparseTerm> terms;
  for (int i = 0; i < members(); ++i) {
    if (!contributes(i)) continue;
    const auto encoded = i == self_ ? encoded_ : std::span<const std::byte>(peers_[i].encoded);
    terms.push_back({part_of(encoded, work.first, work.count), static_cast<float>(share_[i]),
                     static_cast<float>(share_[i] * plan_.members[i].clip_factor)});
  }
  const std::span<float> out = average_.subspan(work.first, work.count);
  if (Status s = sparse2_mean(terms, out); !s.ok()) {
    return Error{Code::kInternal, "the own encoding: " + s.error().message};
  }
  return all_finite(out) ? Status() : Error{Code::kInternal, "the average overflows fp32"};
}

}  // namespace shoal::outer_opt
