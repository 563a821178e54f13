// The rules of one butterfly attempt; butterfly_session.h says what they are. A chunk of the own
// part is worked on by one Work at a time, in the order of the members, so no two works touch the
// same values; an averaged chunk is never written again, which lets it be sent from where it lies.
#include "outer_opt/core/reduce/butterfly_session.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/reduce/aggregate.h"
#include "outer_opt/core/step/nesterov.h"

namespace shoal::outer_opt {
namespace {

// Sums that wait for contributions, beside kept frames: so many that all threads have work.
constexpr std::int64_t kSumsMin = 16, kSumBytesMax = 64 << 20;

Status check_owner_step(const ReducePlan& plan, ReplicaId self, const ReduceInput& input) {
  if (!plan.owner_step) return {};
  const std::int64_t part = plan.members[static_cast<std::size_t>(index_of(plan, self))].part_count;
  if (input.momentum.size() == static_cast<std::size_t>(part)) return {};
  return refused_plan("owner_step", to_string(self) + " owns " + std::to_string(part) +
                                        " values and has the momentum of " +
                                        std::to_string(input.momentum.size()));
}

Status own_not_finite() {
  return Error{Code::kInternal, "this replica's pseudo-gradient holds a value that is not finite"};
}

double sum_of_squares(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

Status check_clip_center(const ReducePlan& plan, const ReduceInput& input) {
  const bool fits = input.clip_center.size() == static_cast<std::size_t>(plan.value_count);
  if (input.clip_center.empty() || (fits && plan.aggregator == Aggregator::kMean)) return {};
  return refused_plan("value_count", "the own anchor has " +
                                         std::to_string(input.clip_center.size()) +
                                         " values and is for a mean");
}

}  // namespace

Status ButterflySession::check(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                               const ReduceInput& input, std::size_t average_count) {
  if (plan.topology != Topology::kButterfly && plan.topology != Topology::kParamServer) {
    return refused_plan("topology", std::string("must be butterfly or param_server, got ") +
                                        to_string(plan.topology));
  }
  if (Status s = check_plan_members(plan, self, frame_values, average_count); !s.ok()) return s;
  if (Status s = check_dense_plan(plan, self, input); !s.ok()) return s;
  if (Status s = check_clip_center(plan, input); !s.ok()) return s;
  return check_owner_step(plan, self, input);
}

ButterflySession::ButterflySession(const ReducePlan& plan, ReplicaId self,
                                   std::int64_t frame_values, const ReduceInput& input,
                                   AverageRoom average)
    : ButterflySession(plan, self, frame_values, input, average, Keep::kWhatIsEncoded) {}

ButterflySession::ButterflySession(const ReducePlan& plan, ReplicaId self,
                                   std::int64_t frame_values, const ReduceInput& input,
                                   AverageRoom average, Keep keep)
    : ReduceSession(plan, self, frame_values, average.values),
      pseudo_gradient_(input.pseudo_gradient),
      momentum_(input.momentum),
      clip_center_(input.clip_center),
      room_(average) {
  SHOAL_CHECK(check(plan, self, frame_values, input,
                    average.keeps_frames() ? static_cast<std::size_t>(plan.value_count)
                                           : average.values.size())
                  .ok());
  std::int64_t chunks = 0;
  for (int i = 0; i < members(); ++i) {
    if (contributes(i)) order_.push_back(i);
    factor_.push_back(static_cast<float>(share_[i] * plan_.members[i].clip_factor));
    checksum_base_.push_back(chunks);
    chunks += chunks_of(i);
  }
  peers_.resize(plan_.members.size());
  chunks_.resize(static_cast<std::size_t>(chunks_of(self_)));
  squares_.resize(chunks_.size() * plan_.members.size());
  checksums_.resize(static_cast<std::size_t>(chunks));
  averages_due_ = is_reducer(self_) ? 0 : chunks - chunks_of(self_);
  if (robust()) kept_.resize(plan_.members.size() * plan_.members[self_].part_count);
  if (average.keeps_frames()) {
    keep_frames();
  } else if (plan_.codec != CodecKind::kFp32 || keep == Keep::kAll) {
    const Codec& c = codec(plan_.codec);
    const std::int64_t full = chunks_.empty() ? 0 : chunks_of(self_) - 1;
    const std::int64_t rest = plan_.members[self_].part_count - full * frame_values_;
    own_frames_.resize(static_cast<std::size_t>(full) * c.encoded_size(frame_values_) +
                       c.encoded_size(static_cast<std::size_t>(rest)));
    encoded_ = own_frames_;
  }
}

void ButterflySession::keep_frames() {
  SHOAL_CHECK(!is_reducer(self_), "a reducer keeps values");
  frames_.emplace(plan_, frame_values_);
  encoded_ = frames_->part(room_.frames, static_cast<std::size_t>(self_));
  const std::int64_t bytes = frame_values_ * std::int64_t{sizeof(float)};
  sums_max_ = std::max(kSumsMin, kSumBytesMax / bytes);
}

// The chunk is busy: where its sum lies stands still.
std::span<float> ButterflySession::sum_of(const Work& work) {
  if (!frames_) return values(work.first, work.count);
  return {chunks_[work.chunk].sum.get(), static_cast<std::size_t>(work.count)};
}

std::int64_t ButterflySession::chunks_of(int member) const {
  return outer_opt::chunks_of(plan_.members[member], frame_values_);
}

FrameRef ButterflySession::frame_at(FrameKind kind, int peer, int part, std::int64_t chunk) const {
  return frame_of_part(plan_, frame_values_, kind, peer, part, chunk);
}

// ---- sending

std::optional<FrameRef> ButterflySession::pull(int peer, FrameKind kind) {
  Peer& p = peers_[peer];
  if (kind == FrameKind::kContribution) return frame_at(kind, peer, peer, p.contributions_sent++);
  if (!chunks_[p.averages_sent].ready) return std::nullopt;
  return frame_at(kind, peer, self_, p.averages_sent++);
}

bool ButterflySession::sent_all(int peer, FrameKind kind) const {
  if (peer == self_) return true;
  if (kind == FrameKind::kAverage) {
    return is_reducer(peer) || peers_[peer].averages_sent == chunks_of(self_);
  }
  return !contributes(self_) || peers_[peer].contributions_sent == chunks_of(peer);
}

std::span<const std::byte> ButterflySession::resident(const FrameRef& frame) const {
  if (plan_.codec == CodecKind::kFp32) {
    if (frame.kind == FrameKind::kAverage) return std::as_bytes(values(frame.first, frame.count));
    if (pseudo_gradient_.in_place().empty()) return {};
    return std::as_bytes(pseudo_gradient_.in_place().subspan(frame.first, frame.count));
  }
  if (frame.kind == FrameKind::kContribution) return {};
  return encoded_at(frame.chunk, frame.count);
}

std::span<const std::byte> ButterflySession::encoded_at(std::int64_t chunk,
                                                        std::int64_t count) const {
  const Codec& c = codec(plan_.codec);
  return encoded_.subspan(static_cast<std::size_t>(chunk) * c.encoded_size(frame_values_),
                          c.encoded_size(static_cast<std::size_t>(count)));
}

std::span<std::byte> ButterflySession::encoded_at(std::int64_t chunk, std::int64_t count) {
  const auto kept = std::as_const(*this).encoded_at(chunk, count);
  return encoded_.subspan(static_cast<std::size_t>(kept.data() - encoded_.data()), kept.size());
}

void ButterflySession::encode(const FrameRef& frame, std::span<std::byte> out) const {
  SHOAL_CHECK(frame.kind == FrameKind::kContribution);
  const Codec& c = codec(plan_.codec);
  std::array<float, kRunValues> scratch;
  const Status read = for_each_run(frame.count, [&](const ValueRun& run) {
    const auto own = pseudo_gradient_.run(frame.first + static_cast<std::int64_t>(run.first),
                                          std::span(scratch).first(run.count));
    c.encode(own, out.first(c.encoded_size(own.size())));
    out = out.subspan(c.encoded_size(own.size()));
    return Status();
  });
  SHOAL_CHECK(read.ok());
}

std::optional<std::uint64_t> ButterflySession::known_checksum(const FrameRef& frame) const {
  if (frame.kind != FrameKind::kAverage) return std::nullopt;
  return chunks_[frame.chunk].payload_checksum;
}

// ---- receiving

std::int64_t ButterflySession::frames_left(int peer, FrameKind kind) const {
  if (peer == self_) return 0;
  const Peer& p = peers_[peer];
  if (kind == FrameKind::kAverage) {
    return is_reducer(self_) ? 0 : chunks_of(peer) - p.averages_taken;
  }
  return contributes(peer) ? chunks_of(self_) - p.contributions_taken : 0;
}

int ButterflySession::slowest() const {
  int slowest = -1;
  double least = 2;
  for (int i = 0; i < members(); ++i) {
    const Peer& p = peers_[i];
    if (i == self_ || lost(i)) continue;
    const auto averages = is_reducer(self_) ? 0 : chunks_of(i);
    const auto due = averages + (contributes(i) ? chunks_of(self_) : 0);
    const auto taken = p.averages_taken + p.contributions_taken;
    const bool takes = sent_all(i, FrameKind::kContribution) && sent_all(i, FrameKind::kAverage);
    const double share =
        taken < due ? static_cast<double>(taken) / static_cast<double>(due) : (takes ? 2 : 1);
    if (share < least) slowest = i, least = share;
  }
  return slowest;
}

std::optional<FrameRef> ButterflySession::due(int peer, FrameKind kind) const {
  const Peer& p = peers_[peer];
  if (kind == FrameKind::kAverage) return frame_at(kind, self_, peer, p.averages_taken);
  return frame_at(kind, self_, self_, p.contributions_taken);
}

std::optional<Work> ButterflySession::take(int peer, const FrameRef& frame) {
  Peer& p = peers_[peer];
  if (frame.kind == FrameKind::kContribution) {
    auto work = plan_sum(p.contributions_taken, peer);
    if (!work) return std::nullopt;
    ++p.contributions_taken;
    return begin(std::move(*work));
  }
  ++p.averages_taken;
  Work work;
  work.kind = FrameKind::kAverage;
  work.peer = work.part = peer;
  work.chunk = frame.chunk;
  work.first = frame.first;
  work.count = frame.count;
  return work;
}

// The next contributions that can be added to a chunk of the own part when `peer`'s (-1: nobody's)
// is at hand. Nothing when it is not the peer's turn, or as many sums as may be wait for others;
// without a peer, only what completes the sum.
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
  double weight = c.weight, clipped = c.clipped;
  bool taken = peer < 0;
  for (; next < order_.size(); ++next) {
    const int member = order_[next];
    if (member == peer) taken = true;
    if (member != peer && member != self_) {
      if (lost(member)) continue;
      break;
    }
    work.terms[work.term_count++] = {member, factor_[member]};
    weight += share_[member];
    clipped += clipped_of(member);
  }
  work.last = next == order_.size();
  if (!taken || (peer < 0 && !work.last)) return std::nullopt;
  if (frames_ && work.fresh && !work.last && sums_ >= sums_max_) return std::nullopt;
  work.inverse = weight > 0 ? static_cast<float>(1 / weight) : 0.0f;
  work.clipped = static_cast<float>(clipped);
  return work;
}

double ButterflySession::clipped_of(int member) const {
  return share_[member] * (1 - plan_.members[member].clip_factor);
}

Work ButterflySession::begin(Work work) {
  Chunk& c = chunks_[work.chunk];
  c.busy = c.started = true;
  if (frames_ && !c.sum) {
    c.sum = room_.sums->take(static_cast<std::size_t>(frame_values_));
    ++sums_;
  }
  for (int i = 0; i < work.term_count; ++i) {
    c.weight += share_[work.terms[i].member];
    c.clipped += clipped_of(work.terms[i].member);
    if (robust()) c.kept.push_back(work.terms[i].member);
  }
  if (work.term_count > 0) {
    const int member = work.terms[work.term_count - 1].member;
    c.next = std::find(order_.begin(), order_.end(), member) - order_.begin() + 1;
  }
  return work;
}

std::optional<Work> ButterflySession::take_local() {
  const auto count = static_cast<std::int64_t>(chunks_.size());
  for (; local_from_ < count; ++local_from_) {
    if (auto work = plan_sum(local_from_, -1)) return begin(std::move(*work));
  }
  return std::nullopt;
}

void ButterflySession::settle(const Work& work, const WorkResult& result) {
  const bool average = work.kind == FrameKind::kAverage;
  if (average || work.last)
    checksums_[checksum_base_[work.part] + work.chunk] = result.values_checksum;
  if (average) {
    ++averages_done_;
    return;
  }
  for (int i = 0; i < work.term_count; ++i) {
    const auto member = static_cast<std::size_t>(work.terms[i].member);
    squares_[work.chunk * plan_.members.size() + member] = result.squares[i];
  }
  Chunk& c = chunks_[work.chunk];
  c.busy = false;
  c.ready = work.last;
  c.payload_checksum = result.payload_checksum;
  if (work.last) ++chunks_ready_;
  if (c.ready && c.sum) {
    room_.sums->give_back(std::move(c.sum));
    --sums_;
  }
  local_from_ = std::min(local_from_, work.chunk);  // a peer may have been lost meanwhile
}

// ---- arithmetic

WorkResult ButterflySession::run(const Work& work, Pieces payload) {
  WorkResult result;
  if (work.kind == FrameKind::kAverage) {
    result.status =
        frames_ ? keep_frame(work, payload, result) : decode_average(work, payload, result);
  } else {
    result.status = robust() ? keep_terms(work, payload, result) : sum_terms(work, payload, result);
  }
  return result;
}

// The bytes stay, and are read for their checksum. Works on frames of their own may run in
// parallel.
Status ButterflySession::keep_frame(const Work& work, Pieces payload, WorkResult& result) {
  const Codec& c = codec(plan_.codec);
  std::array<float, kRunValues> scratch;
  std::span<std::byte> place =
      frames_->part(room_.frames, static_cast<std::size_t>(work.part))
          .subspan(static_cast<std::size_t>(work.chunk) * c.encoded_size(frame_values_));
  RunningChecksum decoded;
  const Status status = read_payload(c, *work.header, payload, [&](const ValueRun& run) {
    const std::span<float> values = std::span(scratch).first(run.count);
    Status s = c.decode(run.bytes, values);
    decoded.add(std::as_bytes(values));
    std::ranges::copy(run.bytes, place.begin());
    place = place.subspan(run.bytes.size());
    return s;
  });
  result.payload_checksum = work.header->checksum;
  result.values_checksum = decoded.value();
  return status;
}

Status ButterflySession::sum_terms(const Work& work, Pieces payload, WorkResult& result) {
  const float inverse = plan_.owner_step ? 1.0f : work.inverse;
  AverageEncoder encoder(codec(plan_.codec), inverse, own_payload(work));
  std::array<SquareSum, 2> squares;
  const auto sum_run = [&](const ValueRun& run) {
    const std::span<float> sum = sum_of(work).subspan(run.first, run.count);
    if (work.fresh) std::fill(sum.begin(), sum.end(), 0.0f);
    Status s = add_terms(work, run, sum, squares);
    if (!work.last) return s;
    if (work.clipped > 0 && !clip_center_.empty()) pull_back(work, run, sum);
    if (plan_.owner_step)
      take_owner_step(work.first + static_cast<std::int64_t>(run.first), work.inverse, sum);
    encoder.add(sum);
    return s;
  };
  const auto count = static_cast<std::size_t>(work.count);
  const Status status = work.header
                            ? read_payload(codec(plan_.codec), *work.header, payload, sum_run)
                            : for_each_run(count, sum_run);
  for (int i = 0; i < work.term_count; ++i) result.squares[i] = squares[i].total();
  return status.ok() && work.last ? encoded(encoder, result) : status;
}

Status ButterflySession::add_terms(const Work& work, const ValueRun& run, std::span<float> sum,
                                   std::span<SquareSum> squares) const {
  for (int i = 0; i < work.term_count; ++i) {
    const auto [member, factor] = work.terms[i];
    const auto first = work.first + static_cast<std::int64_t>(run.first);
    const Status added = member == self_
                             ? add_own(first, factor, sum, squares[i])
                             : codec(plan_.codec).accumulate(run.bytes, factor, sum, squares[i]);
    if (!added.ok()) return added;
  }
  return {};
}

// The values from `first` on, at most a run.
Status ButterflySession::add_own(std::int64_t first, float factor, std::span<float> sum,
                                 SquareSum& squares) const {
  std::array<float, kRunValues> read;
  const auto own = pseudo_gradient_.run(first, std::span(read).first(sum.size()));
  std::span<const std::byte> bytes = std::as_bytes(own);
  std::array<std::byte, kRunValues * sizeof(float)> scratch;
  const Codec& c = codec(plan_.codes_own ? plan_.codec : CodecKind::kFp32);
  if (c.kind() != CodecKind::kFp32) {
    const auto coded = std::span(scratch).first(c.encoded_size(own.size()));
    c.encode(own, coded);
    bytes = coded;
  }
  return c.accumulate(bytes, factor, sum, squares).ok() ? Status() : own_not_finite();
}

void ButterflySession::pull_back(const Work& work, const ValueRun& run,
                                 std::span<float> sum) const {
  const auto center = clip_center_.subspan(static_cast<std::size_t>(work.first) + run.first);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const float pulled = work.clipped * center[i];
    sum[i] = sum[i] + pulled;
  }
}

// Where the average of the chunk goes as bytes; nowhere with fp32, whose values are the payload.
std::span<std::byte> ButterflySession::own_payload(const Work& work) {
  if (plan_.codec == CodecKind::kFp32) return {};
  return encoded_at(work.chunk, work.count);
}

std::span<float> ButterflySession::kept_at(int member, const Work& work) {
  const ReduceMember& own = plan_.members[self_];
  return std::span(kept_).subspan(member * own.part_count + work.first - own.part_first,
                                  work.count);
}

Status ButterflySession::keep_terms(const Work& work, Pieces payload, WorkResult& result) {
  for (int i = 0; i < work.term_count; ++i) {
    const int member = work.terms[i].member;
    const std::span<float> kept = kept_at(member, work);
    const Status here = member == self_
                            ? keep_own(work, kept)
                            : decode_payload(codec(plan_.codec), *work.header, payload, kept);
    if (!here.ok()) return here;
    result.squares[i] = sum_of_squares(kept);
    const auto clip = static_cast<float>(plan_.members[member].clip_factor);
    for (float& value : kept) value = value * clip;
  }
  return work.last ? encode_kept(work, result) : Status();
}

Status ButterflySession::keep_own(const Work& work, std::span<float> kept) const {
  pseudo_gradient_.read(work.first, kept);
  if (!all_finite(kept)) return own_not_finite();
  if (!plan_.codes_own) return {};
  std::vector<std::byte> coded(encoded_size(plan_.codec, kept.size()));
  codec(plan_.codec).encode(kept, coded);
  return codec(plan_.codec).decode(coded, kept);
}

// The chunk is busy: its list of members stands still.
void ButterflySession::aggregate_kept(const Work& work) {
  std::vector<WeightedValues> members;
  for (const int member : chunks_[work.chunk].kept) {
    members.push_back({kept_at(member, work), share_[member]});
  }
  aggregate(plan_.aggregator, members, sum_of(work));
}

// A run of the sum becomes the average and then the outer step; nothing is left to divide.
void ButterflySession::take_owner_step(std::int64_t first, float inverse, std::span<float> run) {
  for (float& value : run) value = value * inverse;
  const auto from = static_cast<std::size_t>(first - plan_.members[self_].part_first);
  owner_step(plan_.owner_step->outer, momentum_.subspan(from, run.size()), run);
}

Status ButterflySession::encode_kept(const Work& work, WorkResult& result) {
  aggregate_kept(work);
  if (plan_.owner_step) take_owner_step(work.first, 1.0f, sum_of(work));
  AverageEncoder encoder(codec(plan_.codec), 1.0f, own_payload(work));
  encoder.add(sum_of(work));
  return encoded(encoder, result);
}

// ---- ends

std::vector<double> ButterflySession::squares() const {
  if (chunks_.empty()) return {};
  std::vector<double> sums(plan_.members.size());
  for (std::size_t i = 0; i < squares_.size(); ++i) sums[i % sums.size()] += squares_[i];
  return sums;
}

bool ButterflySession::complete() const {
  return averages_done_ == averages_due_ &&
         chunks_ready_ == static_cast<std::int64_t>(chunks_.size());
}

}  // namespace shoal::outer_opt
