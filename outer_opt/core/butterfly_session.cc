// The rules of one butterfly attempt; butterfly_session.h says what they are. A chunk of the own
// part is worked on by one Work at a time, in the order of the members, so no two works touch the
// same values; an averaged chunk is never written again, which lets it be sent from where it lies.
#include "outer_opt/core/butterfly_session.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "outer_opt/core/codec.h"

namespace shoal::outer_opt {
namespace {

// Calls use(encoded, first, count) for runs of whole blocks that cover `count` values. Runs lie in
// one piece; a block that is cut between pieces is copied together first.
template <typename Use>
Status for_each_run(const Codec& codec, Pieces pieces, std::size_t count, Use use) {
  constexpr std::size_t kBlock = kCodecRun;
  const std::size_t unit = codec.encoded_size(kBlock);
  std::array<std::byte, kBlock * sizeof(float)> scratch;
  std::size_t piece = 0, offset = 0;
  for (std::size_t first = 0; first < count;) {
    while (offset == pieces[piece].size()) ++piece, offset = 0;
    const std::size_t left = count - first;
    const auto rest = pieces[piece].subspan(offset);
    const std::size_t whole =
        rest.size() >= codec.encoded_size(left) ? left : rest.size() / unit * kBlock;
    if (whole > 0) {
      const std::size_t size = codec.encoded_size(whole);
      if (Status s = use(rest.first(size), first, whole); !s.ok()) return s;
      offset += size;
      first += whole;
      continue;
    }
    const std::size_t n = std::min(kBlock, left), size = codec.encoded_size(n);
    for (std::size_t filled = 0; filled < size;) {
      while (offset == pieces[piece].size()) ++piece, offset = 0;
      const std::size_t take = std::min(size - filled, pieces[piece].size() - offset);
      std::memcpy(&scratch[filled], &pieces[piece][offset], take);
      filled += take;
      offset += take;
    }
    if (Status s = use(std::span(scratch).first(size), first, n); !s.ok()) return s;
    first += n;
  }
  return {};
}

}  // namespace

Status ButterflySession::check(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                               std::size_t pseudo_gradient_count, std::size_t average_count) {
  if (plan.topology != Topology::kButterfly) {
    return refused_plan("topology",
                        std::string("must be butterfly, got ") + to_string(plan.topology));
  }
  if (std::ranges::find(kDenseCodecs, plan.codec) == kDenseCodecs.end()) {
    return refused_plan("codec", std::string(to_string(plan.codec)) + " has no sum to be averaged");
  }
  if (Status s = check_plan_members(plan, self, frame_values, average_count); !s.ok()) return s;
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
  if (contributes && pseudo_gradient_count != average_count) {
    return refused_plan("members.weight",
                        to_string(self) + " is to contribute but has no pseudo-gradient");
  }
  return {};
}

ButterflySession::ButterflySession(const ReducePlan& plan, ReplicaId self,
                                   std::int64_t frame_values,
                                   std::span<const float> pseudo_gradient, std::span<float> average)
    : plan_(plan),
      frame_values_(frame_values),
      pseudo_gradient_(pseudo_gradient),
      average_(average) {
  SHOAL_CHECK(check(plan, self, frame_values, pseudo_gradient.size(), average.size()).ok());
  self_ = index_of(plan_, self);
  share_ = weight_shares(plan_);
  std::int64_t chunks = 0;
  for (int i = 0; i < members(); ++i) {
    if (contributes(i)) order_.push_back(i);
    factor_.push_back(static_cast<float>(share_[i] * plan_.members[i].clip_factor));
    checksum_base_.push_back(chunks);
    chunks += chunks_of(i);
  }
  peers_.resize(plan_.members.size());
  chunks_.resize(static_cast<std::size_t>(chunks_of(self_)));
  checksums_.resize(static_cast<std::size_t>(chunks));
  averages_due_ = chunks - chunks_of(self_);
  if (plan_.codec != CodecKind::kFp32) {
    const Codec& c = codec(plan_.codec);
    const std::int64_t full = chunks_.empty() ? 0 : chunks_of(self_) - 1;
    const std::int64_t rest = plan_.members[self_].part_count - full * frame_values_;
    encoded_.resize(static_cast<std::size_t>(full) * c.encoded_size(frame_values_) +
                    c.encoded_size(static_cast<std::size_t>(rest)));
  }
}

std::int64_t ButterflySession::chunks_of(int member) const {
  return (plan_.members[member].part_count + frame_values_ - 1) / frame_values_;
}

std::span<float> ButterflySession::values(std::int64_t first, std::int64_t count) const {
  return average_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

FrameRef ButterflySession::frame_at(FrameKind kind, int peer, int part, std::int64_t chunk) const {
  const ReduceMember& owner = plan_.members[part];
  const std::int64_t offset = chunk * frame_values_;
  return {kind,
          peer,
          part,
          chunk,
          owner.part_first + offset,
          std::min(frame_values_, owner.part_count - offset)};
}

// ---- sending

std::optional<FrameRef> ButterflySession::next_frame(int peer, FrameKind kind) {
  if (failure_ || peers_[peer].lost || sent_all(peer, kind)) return std::nullopt;
  Peer& p = peers_[peer];
  if (kind == FrameKind::kContribution) return frame_at(kind, peer, peer, p.contributions_sent++);
  if (!chunks_[p.averages_sent].ready) return std::nullopt;
  return frame_at(kind, peer, self_, p.averages_sent++);
}

bool ButterflySession::sent_all(int peer, FrameKind kind) const {
  if (peer == self_) return true;
  if (kind == FrameKind::kAverage) return peers_[peer].averages_sent == chunks_of(self_);
  return !contributes(self_) || peers_[peer].contributions_sent == chunks_of(peer);
}

std::span<const std::byte> ButterflySession::resident(const FrameRef& frame) const {
  if (plan_.codec == CodecKind::kFp32) {
    const auto& source = frame.kind == FrameKind::kAverage ? average_ : pseudo_gradient_;
    return std::as_bytes(std::span<const float>(source).subspan(frame.first, frame.count));
  }
  if (frame.kind == FrameKind::kContribution) return {};
  const std::size_t stride = codec(plan_.codec).encoded_size(frame_values_);
  return std::span<const std::byte>(encoded_).subspan(frame.chunk * stride, payload_size(frame));
}

std::size_t ButterflySession::payload_size(const FrameRef& frame) const {
  return codec(plan_.codec).encoded_size(static_cast<std::size_t>(frame.count));
}

void ButterflySession::encode(const FrameRef& frame, std::span<std::byte> out) const {
  SHOAL_CHECK(frame.kind == FrameKind::kContribution);
  codec(plan_.codec).encode(pseudo_gradient_.subspan(frame.first, frame.count), out);
}

FrameHeader ButterflySession::header(const FrameRef& frame,
                                     std::span<const std::byte> payload) const {
  const std::span<const std::byte> pieces[] = {payload};
  const bool known = frame.kind == FrameKind::kAverage;
  return {frame.kind,
          plan_.codec,
          static_cast<std::uint32_t>(frame.part),
          static_cast<std::uint32_t>(frame.chunk),
          frame.first,
          static_cast<std::uint32_t>(frame.count),
          static_cast<std::uint32_t>(payload.size()),
          known ? chunks_[frame.chunk].payload_checksum : payload_checksum(pieces)};
}

// ---- receiving

bool ButterflySession::received_all(int peer, FrameKind kind) const {
  if (peer == self_) return true;
  if (kind == FrameKind::kAverage) return peers_[peer].averages_taken == chunks_of(peer);
  return !contributes(peer) || peers_[peer].contributions_taken == chunks_of(self_);
}

int ButterflySession::slowest() const {
  int slowest = -1;
  double least = 2;
  for (int i = 0; i < members(); ++i) {
    const Peer& p = peers_[i];
    if (i == self_ || p.lost) continue;
    const auto due = chunks_of(i) + (contributes(i) ? chunks_of(self_) : 0);
    const auto taken = p.averages_taken + p.contributions_taken;
    const bool takes = sent_all(i, FrameKind::kContribution) && sent_all(i, FrameKind::kAverage);
    const double share =
        taken < due ? static_cast<double>(taken) / static_cast<double>(due) : (takes ? 2 : 1);
    if (share < least) slowest = i, least = share;
  }
  return slowest;
}

// Whether this is the frame that `peer` has to send next; anything else breaks the session.
bool ButterflySession::expected(int peer, const FrameHeader& header) {
  const bool average = header.kind == FrameKind::kAverage;
  const Peer& p = peers_[peer];
  const bool more = peer != self_ && !received_all(peer, header.kind);
  const FrameRef due = frame_at(header.kind, self_, average ? peer : self_,
                                average ? p.averages_taken : p.contributions_taken);
  const bool same =
      more && header.codec == plan_.codec && header.part == static_cast<std::uint32_t>(due.part) &&
      header.first == due.first && header.chunk == due.chunk && header.count == due.count;
  if (same) return true;
  fail({ReduceFailure::kBadFrame, peer,
        to_string(plan_.members[peer].replica) + " sent chunk " + std::to_string(header.chunk) +
            " of part " + std::to_string(header.part) + ", which was not its turn"});
  return false;
}

std::optional<Work> ButterflySession::admit(int peer, const FrameHeader& header) {
  if (failure_ || peers_[peer].lost || !expected(peer, header)) return std::nullopt;
  Peer& p = peers_[peer];
  if (header.kind == FrameKind::kContribution) {
    auto work = plan_sum(p.contributions_taken, peer);
    if (!work) return std::nullopt;
    ++p.contributions_taken;
    work->header = header;
    return begin(std::move(*work));
  }
  Work work;
  work.kind = FrameKind::kAverage;
  work.peer = work.part = peer;
  work.header = header;
  work.chunk = p.averages_taken++;
  work.first = header.first;
  work.count = header.count;
  return work;
}

// The next contributions that can be added to a chunk of the own part when `peer`'s (-1: nobody's)
// is at hand. Nothing when it is not the peer's turn; without a peer, only what completes the sum.
std::optional<Work> ButterflySession::plan_sum(std::int64_t chunk, int peer) const {
  const Chunk& c = chunks_[chunk];
  if (c.busy || c.ready) return std::nullopt;
  const FrameRef place = frame_at(FrameKind::kContribution, self_, self_, chunk);
  Work work;
  work.peer = peer;
  work.part = self_;
  work.chunk = chunk;
  work.first = place.first;
  work.count = place.count;
  work.fresh = !c.started;
  std::size_t next = c.next;
  double weight = c.weight;
  bool taken = peer < 0;
  for (; next < order_.size(); ++next) {
    const int member = order_[next];
    if (member == peer) taken = true;
    if (member != peer && member != self_) {
      if (peers_[member].lost) continue;
      break;
    }
    work.terms[work.term_count++] = {member, factor_[member]};
    weight += share_[member];
  }
  work.last = next == order_.size();
  if (!taken || (peer < 0 && !work.last)) return std::nullopt;
  work.inverse = weight > 0 ? static_cast<float>(1 / weight) : 0.0f;
  return work;
}

Work ButterflySession::begin(Work work) {
  Chunk& c = chunks_[work.chunk];
  c.busy = c.started = true;
  for (int i = 0; i < work.term_count; ++i) c.weight += share_[work.terms[i].member];
  if (work.term_count > 0) {
    const int member = work.terms[work.term_count - 1].member;
    c.next = std::find(order_.begin(), order_.end(), member) - order_.begin() + 1;
  }
  return work;
}

std::optional<Work> ButterflySession::local_work() {
  const auto count = static_cast<std::int64_t>(chunks_.size());
  for (; !failure_ && local_from_ < count; ++local_from_) {
    if (auto work = plan_sum(local_from_, -1)) return begin(std::move(*work));
  }
  return std::nullopt;
}

void ButterflySession::finish(const Work& work, const WorkResult& result) {
  if (!result.status.ok()) return fail(failure_of(plan_, work, result.status.error()));
  const bool average = work.kind == FrameKind::kAverage;
  if (average || work.last)
    checksums_[checksum_base_[work.part] + work.chunk] = result.values_checksum;
  if (average) {
    ++averages_done_;
    return;
  }
  Chunk& c = chunks_[work.chunk];
  c.busy = false;
  c.ready = work.last;
  c.payload_checksum = result.payload_checksum;
  if (work.last) ++chunks_ready_;
  local_from_ = std::min(local_from_, work.chunk);  // a peer may have been lost meanwhile
}

// ---- arithmetic

WorkResult ButterflySession::run(const Work& work, Pieces payload) {
  WorkResult result;
  if (work.header) result.status = check_payload(*work.header, payload);
  if (!result.status.ok()) return result;
  const std::span<float> out = values(work.first, work.count);
  if (work.kind == FrameKind::kContribution) {
    result.status = add_terms(work, payload);
    if (result.status.ok() && work.last) result.status = complete_sum(work, result);
    return result;
  }
  const Codec& c = codec(plan_.codec);
  result.status = for_each_run(c, payload, out.size(), [&](auto bytes, auto first, auto n) {
    return c.decode(bytes, out.subspan(first, n));
  });
  result.payload_checksum = work.header->checksum;
  result.values_checksum = values_checksum(out, result.payload_checksum);
  return result;
}

// Of averaged values; with fp32 they are the payload.
std::uint64_t ButterflySession::values_checksum(std::span<const float> values,
                                                std::uint64_t payload) const {
  if (plan_.codec == CodecKind::kFp32) return payload;
  const std::span<const std::byte> pieces[] = {std::as_bytes(values)};
  return payload_checksum(pieces);
}

Status ButterflySession::add_terms(const Work& work, Pieces payload) {
  const std::span<float> sum = values(work.first, work.count);
  if (work.fresh) std::fill(sum.begin(), sum.end(), 0.0f);
  for (int i = 0; i < work.term_count; ++i) {
    const auto [member, factor] = work.terms[i];
    if (member == self_) {
      const auto own = std::as_bytes(pseudo_gradient_.subspan(work.first, work.count));
      if (Status s = codec(CodecKind::kFp32).accumulate(own, factor, sum); !s.ok()) {
        return Error{Code::kInternal, "the own pseudo-gradient holds a value that is not finite"};
      }
      continue;
    }
    const Codec& c = codec(plan_.codec);
    Status s =
        for_each_run(c, payload, sum.size(), [&, scale = factor](auto bytes, auto first, auto n) {
          return c.accumulate(bytes, scale, sum.subspan(first, n));
        });
    if (!s.ok()) return s;
  }
  return {};
}

// Divides and passes the average through the codec, so that the owner has what the others will
// have.
Status ButterflySession::complete_sum(const Work& work, WorkResult& result) {
  const std::span<float> sum = values(work.first, work.count);
  for (float& value : sum) value = value * work.inverse;
  const Codec& c = codec(plan_.codec);
  std::span<const std::byte> bytes = std::as_bytes(std::span<const float>(sum));
  if (plan_.codec != CodecKind::kFp32) {
    const std::size_t at = static_cast<std::size_t>(work.chunk) * c.encoded_size(frame_values_);
    const auto out = std::span(encoded_).subspan(at, c.encoded_size(sum.size()));
    c.encode(sum, out);
    bytes = out;
  }
  if (!c.decode(bytes, sum).ok()) return Error{Code::kInternal, "the average overflows fp32"};
  const std::span<const std::byte> pieces[] = {bytes};
  result.payload_checksum = payload_checksum(pieces);
  result.values_checksum = values_checksum(sum, result.payload_checksum);
  return {};
}

// ---- ends

void ButterflySession::peer_lost(int peer, const std::string& detail) {
  if (peer == self_ || peers_[peer].lost) return;
  peers_[peer].lost = true;
  local_from_ = 0;
  const bool owed =
      !received_all(peer, FrameKind::kAverage) || !received_all(peer, FrameKind::kContribution);
  if (owns(peer) && owed) fail({ReduceFailure::kPeerLost, peer, detail});
}

void ButterflySession::fail(SessionFailure failure) {
  if (!failure_) failure_ = std::move(failure);
}

SessionState ButterflySession::state() const {
  if (failure_) return SessionState::kBroken;
  const bool received =
      averages_done_ == averages_due_ && chunks_ready_ == static_cast<std::int64_t>(chunks_.size());
  if (!received) return SessionState::kRunning;
  for (int i = 0; i < members(); ++i) {
    if (peers_[i].lost) continue;
    if (!sent_all(i, FrameKind::kContribution) || !sent_all(i, FrameKind::kAverage)) {
      return SessionState::kRunning;
    }
  }
  return SessionState::kDone;
}

const SessionFailure& ButterflySession::failure() const {
  SHOAL_CHECK(failure_.has_value());
  return *failure_;
}

Digest ButterflySession::digest() const {
  SHOAL_CHECK(state() == SessionState::kDone);
  Digester all;
  all.add(plan_.value_count);
  for (const std::uint64_t checksum : checksums_) all.add(checksum);
  return all.finish();
}

}  // namespace shoal::outer_opt
