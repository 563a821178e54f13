// The rules of one all-gather; allgather_session.h says what they are. A chunk is averaged by one
// Work once all its frames are stored, so no two works touch the same values or bytes.
#include "outer_opt/core/allgather_session.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "outer_opt/core/sparse2.h"

namespace shoal::outer_opt {

Status AllgatherSession::check(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                               std::size_t encoded_bytes, std::size_t average_count) {
  if (plan.topology != Topology::kAllgather) {
    return refused_plan("topology",
                        std::string("must be allgather, got ") + to_string(plan.topology));
  }
  if (plan.codec != CodecKind::kSparse2) {
    return refused_plan("codec", std::string("must be sparse2, got ") + to_string(plan.codec));
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
  if (contributes && encoded_bytes != sparse2_size(average_count)) {
    return refused_plan("members.weight",
                        to_string(self) + " is to contribute but has no encoding of that length");
  }
  return {};
}

AllgatherSession::AllgatherSession(const ReducePlan& plan, ReplicaId self,
                                   std::int64_t frame_values, std::span<const std::byte> encoded,
                                   std::span<float> average)
    : plan_(plan),
      self_(index_of(plan, self)),
      frame_values_(frame_values),
      chunks_((plan.value_count + frame_values - 1) / frame_values),
      encoded_(encoded),
      average_(average),
      share_(weight_shares(plan)) {
  SHOAL_CHECK(check(plan, self, frame_values, encoded.size(), average.size()).ok());
  peers_.resize(plan_.members.size());
  for (int i = 0; i < members(); ++i) {
    if (i == self_ || !contributes(i)) continue;
    ++due_;
    peers_[i].encoded.resize(sparse2_size(average.size()));
  }
  arrived_.resize(static_cast<std::size_t>(chunks_));
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

std::optional<FrameRef> AllgatherSession::next_frame(int peer, FrameKind kind) {
  if (failure_ || peers_[peer].lost || sent_all(peer, kind)) return std::nullopt;
  return frame_at(peer, self_, peers_[peer].sent++);
}

bool AllgatherSession::sent_all(int peer, FrameKind kind) const {
  if (peer == self_ || kind == FrameKind::kAverage || !contributes(self_)) return true;
  return peers_[peer].sent == chunks_;
}

std::span<const std::byte> AllgatherSession::resident(const FrameRef& frame) const {
  return part_of(encoded_, frame.first, frame.count);
}

FrameHeader AllgatherSession::header(const FrameRef& frame,
                                     std::span<const std::byte> payload) const {
  const std::span<const std::byte> pieces[] = {payload};
  return {frame.kind,
          plan_.codec,
          static_cast<std::uint32_t>(frame.part),
          static_cast<std::uint32_t>(frame.chunk),
          frame.first,
          static_cast<std::uint32_t>(frame.count),
          static_cast<std::uint32_t>(payload.size()),
          payload_checksum(pieces)};
}

// ---- receiving

bool AllgatherSession::received_all(int peer, FrameKind kind) const {
  if (peer == self_ || kind == FrameKind::kAverage || !contributes(peer)) return true;
  return peers_[peer].taken == chunks_;
}

int AllgatherSession::slowest() const {
  int slowest = -1;
  std::int64_t least = 0;
  for (int i = 0; i < members(); ++i) {
    if (i == self_ || peers_[i].lost) continue;
    const std::int64_t owes = contributes(i) ? chunks_ - peers_[i].taken : 0;
    const std::int64_t leaves = contributes(self_) ? chunks_ - peers_[i].sent : 0;
    const std::int64_t behind = owes > 0 ? chunks_ + owes : leaves;
    if (behind > least) slowest = i, least = behind;
  }
  return slowest;
}

std::optional<Work> AllgatherSession::admit(int peer, const FrameHeader& header) {
  if (failure_ || peers_[peer].lost) return std::nullopt;
  Peer& p = peers_[peer];
  const FrameRef due = frame_at(self_, peer, p.taken);
  const bool expected =
      !received_all(peer, FrameKind::kContribution) && header.kind == due.kind &&
      header.codec == plan_.codec && header.part == static_cast<std::uint32_t>(due.part) &&
      header.first == due.first && header.chunk == due.chunk && header.count == due.count;
  if (!expected) {
    fail({ReduceFailure::kBadFrame, peer,
          to_string(plan_.members[peer].replica) + " sent chunk " + std::to_string(header.chunk) +
              " of part " + std::to_string(header.part) + ", which was not its turn"});
    return std::nullopt;
  }
  ++p.taken;
  Work work;
  work.peer = work.part = peer;
  work.header = header;
  work.chunk = due.chunk;
  work.first = due.first;
  work.count = due.count;
  return work;
}

std::optional<Work> AllgatherSession::local_work() {
  if (failure_ || begun_ == chunks_ || arrived_[begun_] < due_) return std::nullopt;
  const FrameRef place = frame_at(self_, self_, begun_++);
  Work work;
  work.part = self_;
  work.chunk = place.chunk;
  work.first = place.first;
  work.count = place.count;
  work.last = true;
  return work;
}

void AllgatherSession::finish(const Work& work, const WorkResult& result) {
  if (!result.status.ok()) return fail(failure_of(plan_, work, result.status.error()));
  if (!work.last) {
    ++arrived_[work.chunk];
    return;
  }
  checksums_[work.chunk] = result.values_checksum;
  ++averaged_;
}

// ---- arithmetic

WorkResult AllgatherSession::run(const Work& work, Pieces payload) {
  WorkResult result;
  if (!work.last) {
    result.status = store(work, payload);
    return result;
  }
  result.status = average(work);
  const std::span<const float> values = average_.subspan(work.first, work.count);
  const std::span<const std::byte> pieces[] = {std::as_bytes(values)};
  result.values_checksum = payload_checksum(pieces);
  return result;
}

// Copies a frame to its place and looks whether it can be decoded, while its sender is known.
Status AllgatherSession::store(const Work& work, Pieces payload) {
  if (Status s = check_payload(*work.header, payload); !s.ok()) return s;
  std::size_t at = sparse2_size(static_cast<std::size_t>(work.first));
  for (const auto& piece : payload) {
    if (!piece.empty()) std::memcpy(&peers_[work.peer].encoded[at], piece.data(), piece.size());
    at += piece.size();
  }
  return sparse2_check(part_of(peers_[work.peer].encoded, work.first, work.count),
                       static_cast<std::size_t>(work.count));
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
  const bool finite = std::ranges::all_of(out, [](float v) { return std::isfinite(v); });
  return finite ? Status() : Error{Code::kInternal, "the average overflows fp32"};
}

// ---- ends

void AllgatherSession::peer_lost(int peer, const std::string& detail) {
  if (peer == self_ || peers_[peer].lost) return;
  peers_[peer].lost = true;
  if (!received_all(peer, FrameKind::kContribution)) {
    fail({ReduceFailure::kPeerLost, peer, detail});
  }
}

void AllgatherSession::fail(SessionFailure failure) {
  if (!failure_) failure_ = std::move(failure);
}

SessionState AllgatherSession::state() const {
  if (failure_) return SessionState::kBroken;
  if (averaged_ < chunks_) return SessionState::kRunning;
  for (int i = 0; i < members(); ++i) {
    if (!peers_[i].lost && !sent_all(i, FrameKind::kContribution)) return SessionState::kRunning;
  }
  return SessionState::kDone;
}

const SessionFailure& AllgatherSession::failure() const {
  SHOAL_CHECK(failure_.has_value());
  return *failure_;
}

Digest AllgatherSession::digest() const {
  SHOAL_CHECK(state() == SessionState::kDone);
  Digester all;
  all.add(plan_.value_count);
  for (const std::uint64_t checksum : checksums_) all.add(checksum);
  return all.finish();
}

}  // namespace shoal::outer_opt
