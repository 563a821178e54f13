// What sessions have in common: the checks of a plan, the checks of every frame, losses and ends.
#include "outer_opt/core/reduce/reduce_session.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/codec_pieces.h"
#include "outer_opt/core/step/vector_statistics.h"

namespace shoal::outer_opt {
namespace {

Status check_member(const ReduceMember& member, Topology topology) {
  const std::string name = to_string(member.replica);
  if (member.reducer && (topology != Topology::kParamServer || member.weight != 0)) {
    return refused_plan("members.reducer",
                        name + " is a reducer: of param_server only, and without a weight");
  }
  if (!(member.weight >= 0) || !std::isfinite(member.weight)) {
    return refused_plan("members.weight",
                        name + " has the weight " + std::to_string(member.weight));
  }
  if (!(member.clip_factor > 0 && member.clip_factor <= 1)) {
    return refused_plan("members.clip_factor", name + " has " + std::to_string(member.clip_factor));
  }
  return {};
}

// Relative to the largest weight, so that equal weights are exactly 1; zeros without any.
std::vector<double> weight_shares(const ReducePlan& plan) {
  double heaviest = 0;
  for (const ReduceMember& m : plan.members) heaviest = std::max(heaviest, m.weight);
  std::vector<double> shares;
  for (const ReduceMember& m : plan.members) {
    shares.push_back(heaviest > 0 ? m.weight / heaviest : 0);
  }
  return shares;
}

SessionFailure failure_of(const ReducePlan& plan, const Work& work, const Error& error) {
  if (work.peer < 0 || error.code == Code::kInternal) {
    return {ReduceFailure::kInternal, -1, error.message};
  }
  const std::string name = to_string(plan.members[work.peer].replica);
  return {ReduceFailure::kBadFrame, work.peer, name + ": " + error.message};
}

bool is_frame(const FrameRef& frame, const FrameHeader& header, CodecKind codec) {
  return header.kind == frame.kind && header.codec == codec &&
         header.part == static_cast<std::uint32_t>(frame.part) &&
         header.chunk == static_cast<std::uint32_t>(frame.chunk) && header.first == frame.first &&
         header.count == static_cast<std::uint32_t>(frame.count);
}

}  // namespace

// ---- plans

Status check_plan_members(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                          std::size_t average_count) {
  if (frame_values < 1 || frame_values > kFrameValuesMax) {
    return refused_plan("frame_values",
                        "must be in [1, 1048576], got " + std::to_string(frame_values));
  }
  int found = 0;
  std::int64_t averaged = plan.value_count;  // at this member
  for (const ReduceMember& member : plan.members) {
    if (Status s = check_member(member, plan.topology); !s.ok()) return s;
    if (member.replica != self) continue;
    ++found;
    if (member.reducer) averaged = member.part_count;
  }
  if (averaged < 0 || average_count != static_cast<std::size_t>(averaged)) {
    return refused_plan("value_count", "the plan has " + std::to_string(averaged) +
                                           " values, this replica " +
                                           std::to_string(average_count));
  }
  if (found > 1) return refused_plan("members", to_string(self) + " is there twice");
  if (found == 0) return refused_plan("members", to_string(self) + " is not one of them");
  return {};
}

Status check_dense_plan(const ReducePlan& plan, ReplicaId self, const ReduceInput& input) {
  if (std::ranges::find(kDenseCodecs, plan.codec) == kDenseCodecs.end()) {
    return refused_plan("codec", std::string(to_string(plan.codec)) + " has no sum to be averaged");
  }
  std::int64_t at = 0;
  for (const ReduceMember& member : plan.members) {
    if (member.part_first != at || member.part_count < 0) {
      return refused_plan("members.part_first",
                          "the part of " + to_string(member.replica) + " leaves a gap or overlaps");
    }
    at += member.part_count;
  }
  if (at != plan.value_count) return refused_plan("members", "the parts do not cover the vector");
  const bool contributes = plan.members[index_of(plan, self)].weight > 0;
  if (contributes && input.pseudo_gradient.size() != static_cast<std::size_t>(plan.value_count)) {
    return refused_plan("members.weight",
                        to_string(self) + " is to contribute but has no pseudo-gradient");
  }
  return {};
}

int index_of(const ReducePlan& plan, ReplicaId self) {
  const auto at = std::ranges::find(plan.members, self, &ReduceMember::replica);
  SHOAL_CHECK(at != plan.members.end());
  return static_cast<int>(at - plan.members.begin());
}

std::int64_t chunks_of(const ReduceMember& owner, std::int64_t frame_values) {
  return (owner.part_count + frame_values - 1) / frame_values;
}

FrameRef frame_of_part(const ReducePlan& plan, std::int64_t frame_values, FrameKind kind, int peer,
                       int part, std::int64_t chunk) {
  const ReduceMember& owner = plan.members[part];
  const std::int64_t offset = chunk * frame_values;
  const std::int64_t count = std::min(frame_values, owner.part_count - offset);
  return {kind, peer, part, chunk, owner.part_first + offset, count};
}

// ---- frames

ReduceSession::ReduceSession(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                             std::span<float> average)
    : plan_(plan),
      self_(index_of(plan, self)),
      frame_values_(frame_values),
      average_(average),
      origin_(plan.members[static_cast<std::size_t>(self_)].reducer
                  ? plan.members[static_cast<std::size_t>(self_)].part_first
                  : 0),
      share_(weight_shares(plan)),
      lost_(plan.members.size()) {}

std::optional<FrameRef> ReduceSession::next_frame(int peer, FrameKind kind) {
  if (failure_ || lost_[peer] || sent_all(peer, kind)) return std::nullopt;
  return pull(peer, kind);
}

std::size_t ReduceSession::payload_size(const FrameRef& frame) const {
  return encoded_size(plan_.codec, static_cast<std::size_t>(frame.count));
}

void ReduceSession::encode(const FrameRef&, std::span<std::byte>) const {
  SHOAL_CHECK(false, "every frame of this session is resident");
}

FrameHeader ReduceSession::header(const FrameRef& frame, std::span<const std::byte> payload,
                                  bool by_reference) const {
  FrameHeader header = {frame.kind,
                        plan_.codec,
                        static_cast<std::uint32_t>(frame.part),
                        static_cast<std::uint32_t>(frame.chunk),
                        frame.first,
                        static_cast<std::uint32_t>(frame.count),
                        static_cast<std::uint32_t>(payload.size())};
  header.by_reference = by_reference;
  if (!header.has_checksum()) return header;
  const std::span<const std::byte> pieces[] = {payload};
  const auto known = known_checksum(frame);
  header.checksum = known ? *known : payload_checksum(pieces);
  return header;
}

// Only the frame that the peer has to send next is taken; anything else breaks the session.
std::optional<Work> ReduceSession::admit(int peer, const FrameHeader& header) {
  if (failure_ || lost_[peer]) return std::nullopt;
  std::optional<FrameRef> frame;
  if (peer != self_ && !received_all(peer, header.kind)) frame = due(peer, header.kind);
  if (!frame || !is_frame(*frame, header, plan_.codec)) {
    fail({ReduceFailure::kBadFrame, peer,
          to_string(plan_.members[peer].replica) + " sent chunk " + std::to_string(header.chunk) +
              " of part " + std::to_string(header.part) + ", which was not due"});
    return std::nullopt;
  }
  std::optional<Work> work = take(peer, *frame);
  if (work) work->header = header;
  return work;
}

std::optional<Work> ReduceSession::local_work() {
  if (failure_) return std::nullopt;
  return take_local();
}

void ReduceSession::finish(const Work& work, const WorkResult& result) {
  if (!result.status.ok()) return fail(failure_of(plan_, work, result.status.error()));
  settle(work, result);
}

std::span<float> ReduceSession::values(std::int64_t first, std::int64_t count) const {
  return average_.subspan(static_cast<std::size_t>(first - origin_),
                          static_cast<std::size_t>(count));
}

Status ReduceSession::decode_average(const Work& work, Pieces payload, WorkResult& result) const {
  const Codec& c = codec(plan_.codec);
  const std::span<float> out = values(work.first, work.count);
  const bool values_are_payload = plan_.codec == CodecKind::kFp32;
  RunningChecksum decoded;
  const Status status = read_payload(c, *work.header, payload, [&](const ValueRun& run) {
    const std::span<float> place = out.subspan(run.first, run.count);
    Status s = c.decode(run.bytes, place);
    if (!values_are_payload) decoded.add(std::as_bytes(place));
    return s;
  });
  result.payload_checksum = work.header->checksum;
  result.values_checksum = values_are_payload ? result.payload_checksum : decoded.value();
  return status;
}

Status ReduceSession::encoded(const AverageEncoder& encoder, WorkResult& result) {
  if (!encoder.finite()) return Error{Code::kInternal, "the average overflows fp32"};
  result.payload_checksum = encoder.payload_checksum();
  result.values_checksum = encoder.values_checksum();
  return {};
}

bool all_finite(std::span<const float> values) { return count_nonfinite(values) == 0; }

// ---- ends

void ReduceSession::peer_lost(int peer, const std::string& detail) {
  if (peer == self_ || lost_[peer]) return;
  lost_[peer] = true;
  forget(peer);
  const bool owes =
      !received_all(peer, FrameKind::kAverage) || !received_all(peer, FrameKind::kContribution);
  if (owes && !tolerates_loss(peer)) fail({ReduceFailure::kPeerLost, peer, detail});
}

void ReduceSession::fail(SessionFailure failure) {
  if (!failure_) failure_ = std::move(failure);
}

SessionState ReduceSession::state() const {
  if (failure_) return SessionState::kBroken;
  if (!complete()) return SessionState::kRunning;
  for (int i = 0; i < members(); ++i) {
    if (lost_[i]) continue;
    if (!sent_all(i, FrameKind::kContribution) || !sent_all(i, FrameKind::kAverage)) {
      return SessionState::kRunning;
    }
  }
  return SessionState::kDone;
}

const SessionFailure& ReduceSession::failure() const {
  SHOAL_CHECK(failure_.has_value());
  return *failure_;
}

Digest ReduceSession::digest() const {
  SHOAL_CHECK(state() == SessionState::kDone);
  Digester all;
  all.add(plan_.value_count);
  for (const std::uint64_t checksum : checksums_) all.add(checksum);
  return all.finish();
}

std::vector<ReplicaId> ReduceSession::excluded() const {
  SHOAL_CHECK(state() == SessionState::kDone);
  std::vector<ReplicaId> excluded;
  for (int i = 0; i < members(); ++i) {
    if (!contributes(i) || received_all(i, FrameKind::kContribution)) continue;
    excluded.push_back(plan_.members[static_cast<std::size_t>(i)].replica);
  }
  return excluded;
}

}  // namespace shoal::outer_opt
