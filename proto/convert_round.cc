// The bodies of rounds: orders, reports, plans, votes and commits.
#include "outer_opt/core/codec/frame.h"
#include "proto/convert_parts.h"

namespace shoal::proto {

namespace {

void put(const ReduceMember& from, v1::ReduceMember& to) {
  to.set_replica(from.replica.n);
  to.set_address(from.address);
  to.set_weight(from.weight);
  to.set_clip_factor(from.clip_factor);
  to.set_part_first(from.part_first);
  to.set_part_count(from.part_count);
  to.set_reducer(from.reducer);
}
void get(Reader& reader, const v1::ReduceMember& from, ReduceMember& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  to.address = from.address();
  to.weight = reader.amount("weight", from.weight());
  to.clip_factor = reader.amount("clip_factor", from.clip_factor());
  reader.require(to.clip_factor > 0 && to.clip_factor <= 1, "clip_factor",
                 "must be above 0 and at most 1");
  to.part_first = reader.count("part_first", from.part_first());
  to.part_count = reader.count("part_count", from.part_count());
  to.reducer = from.reducer();
}

void put(const LinkEstimate& from, v1::LinkEstimate& to) {
  to.set_peer(from.peer.n);
  to.set_round_trip_ns(from.round_trip.ns);
  to.set_to_per_s(from.to_per_s);
  to.set_from_per_s(from.from_per_s);
  to.set_reached(from.reached);
}
void get(Reader& reader, const v1::LinkEstimate& from, LinkEstimate& to) {
  to.peer = reader.id<ReplicaTag>("peer", from.peer());
  to.round_trip = nanoseconds(reader.count("round_trip_ns", from.round_trip_ns()));
  to.to_per_s = reader.amount("to_per_s", from.to_per_s());
  to.from_per_s = reader.amount("from_per_s", from.from_per_s());
  to.reached = from.reached();
}

std::int32_t attempt_of(Reader& reader, std::int32_t attempt) {
  return static_cast<std::int32_t>(reader.count("attempt", attempt));
}

}  // namespace

void put(const RoundReport& from, v1::RoundReport& to) {
  put(from.key, *to.mutable_key());
  to.set_tokens(from.tokens.count());
  to.set_steps(from.steps.count());
  to.set_train_loss(from.train_loss);
  to.set_norm(from.norm);
  to.set_max_abs(from.max_abs);
  to.set_nonfinite(from.nonfinite);
  to.set_compute_s(from.compute_s);
  to.set_drawn(from.drawn.count());
  to.set_stood_s(from.stood_s);
  to.set_aborts(from.aborts);
  for (const LinkEstimate& link : from.links) put(link, *to.add_links());
  to.set_skipped(from.skipped.count());
  put(from.unused, *to.mutable_unused());
}
void get(Reader& reader, const v1::RoundReport& from, RoundReport& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  to.tokens = Tokens(reader.count("tokens", from.tokens()));
  to.steps = Steps(reader.count("steps", from.steps()));
  to.train_loss = from.train_loss();  // losses and norms may be NaN: that is what nonfinite tells
  to.norm = from.norm();
  to.max_abs = from.max_abs();
  to.nonfinite = reader.count("nonfinite", from.nonfinite());
  to.compute_s = reader.amount("compute_s", from.compute_s());
  to.drawn = Tokens(reader.count("drawn", from.drawn()));
  to.stood_s = reader.amount("stood_s", from.stood_s());
  to.aborts = static_cast<std::int32_t>(reader.count("aborts", from.aborts()));
  to.skipped = Steps(reader.count("skipped", from.skipped()));
  get_leases(reader, "unused", from.unused(), to.unused, kReturnedRunsMax);
  reader.require(static_cast<std::size_t>(from.links_size()) <= kLinksMax, "links",
                 "must be at most 64");
  if (!reader.ok()) return;
  for (const auto& link : from.links()) {
    const Reader::Inside inside(reader, "links");
    get(reader, link, to.links.emplace_back());
  }
}

void put(const Vote& from, v1::Vote& to) {
  put(from.key, *to.mutable_key());
  to.set_attempt(from.attempt);
  put(from.average, *to.mutable_average());
  to.mutable_stats()->set_sent_bytes(from.stats.sent.count());
  to.mutable_stats()->set_received_bytes(from.stats.received.count());
  to.mutable_stats()->set_reduce_s(from.stats.reduce_s);
  for (const ReplicaId replica : from.left_out) to.add_left_out(replica.n);
}
void get(Reader& reader, const v1::Vote& from, Vote& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  to.attempt = attempt_of(reader, from.attempt());
  get(reader, from.average(), to.average);
  to.stats.sent = Bytes(reader.count("stats.sent_bytes", from.stats().sent_bytes()));
  to.stats.received = Bytes(reader.count("stats.received_bytes", from.stats().received_bytes()));
  to.stats.reduce_s = reader.amount("stats.reduce_s", from.stats().reduce_s());
  reader.require(static_cast<std::size_t>(from.left_out_size()) <= kLeftOutMax, "left_out",
                 "must be at most 10000");
  if (!reader.ok()) return;
  for (const std::uint64_t replica : from.left_out()) {
    to.left_out.push_back(reader.id<ReplicaTag>("left_out", replica));
  }
}

void put(const ReduceFailed& from, v1::ReduceFailed& to) {
  put(from.key, *to.mutable_key());
  to.set_attempt(from.attempt);
  to.set_lost(from.lost.n);
  to.set_failure(to_string(from.failure));
  to.set_detail(from.detail);
}
void get(Reader& reader, const v1::ReduceFailed& from, ReduceFailed& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  to.attempt = attempt_of(reader, from.attempt());
  to.lost = ReplicaId(from.lost());
  get_word(reader, "failure", from.failure(), to.failure);
  to.detail = from.detail();
}

void put(const Applied& from, v1::Applied& to) {
  put(from.key, *to.mutable_key());
  put(from.anchor, *to.mutable_anchor());
  put(from.momentum, *to.mutable_momentum());
  put(from.base, *to.mutable_base());
  put(from.base_momentum, *to.mutable_base_momentum());
  put(from.average, *to.mutable_average());
}
void get(Reader& reader, const v1::Applied& from, Applied& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  get(reader, from.anchor(), to.anchor);
  get(reader, from.momentum(), to.momentum);
  get(reader, from.base(), to.base);
  get(reader, from.base_momentum(), to.base_momentum);
  get(reader, from.average(), to.average);
}

void put(const EvalSlice& from, v1::EvalSlice& to) {
  to.set_slice(from.slice);
  to.set_slices(from.slices);
  to.set_batches(from.batches);
}
void get(Reader& reader, const v1::EvalSlice& from, EvalSlice& to) {
  to = {reader.count("slice", from.slice()), reader.count("slices", from.slices()),
        reader.count("batches", from.batches())};
  reader.require(to.slices == 0 || to.slice < to.slices, "slice", "must be below slices");
}

void put(const std::vector<DataLease>& from,
         google::protobuf::RepeatedPtrField<v1::DataLease>& to) {
  for (const DataLease& lease : from) {
    v1::DataLease& out = *to.Add();
    out.set_first(lease.first);
    out.set_count(lease.count);
  }
}
void get_leases(Reader& reader, std::string_view field,
                const google::protobuf::RepeatedPtrField<v1::DataLease>& from,
                std::vector<DataLease>& to, std::size_t runs_max) {
  const Reader::Inside inside(reader, field);
  if (static_cast<std::size_t>(from.size()) > runs_max) {
    return reader.refuse("", "must be at most " + std::to_string(runs_max) + " runs");
  }
  for (const v1::DataLease& lease : from) {
    to.push_back({reader.count("first", lease.first()), reader.count("count", lease.count())});
  }
}

namespace {

void put_all(const std::vector<Digest>& from, google::protobuf::RepeatedPtrField<v1::Digest>& to) {
  for (const Digest& digest : from) proto::put(digest, *to.Add());
}
void get_all(Reader& reader, const google::protobuf::RepeatedPtrField<v1::Digest>& from,
             std::vector<Digest>& to) {
  for (const v1::Digest& digest : from) proto::get(reader, digest, to.emplace_back());
}

}  // namespace

void put(const CommitRecord& from, v1::CommitRecord& to) {
  put(from.key, *to.mutable_key());
  to.set_step(from.step.count());
  to.set_tokens(from.tokens.count());
  to.set_next_sequence(from.next_sequence);
  put(from.returned, *to.mutable_returned());
  to.set_carried_steps(from.carried_steps);
  to.set_outer_lr(from.outer_lr);
  put_all(from.averages, *to.mutable_averages());
  put_all(from.anchors, *to.mutable_anchors());
  put_all(from.momenta, *to.mutable_momenta());
  to.set_next_replica(from.next_replica);
  to.set_next_checkpoint(from.next_checkpoint);
  for (const MomentumHolder& holder : from.momentum_holders)
    put(holder, *to.add_momentum_holders());
}
void get(Reader& reader, const v1::CommitRecord& from, CommitRecord& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  to.step = Steps(reader.count("step", from.step()));
  to.tokens = Tokens(reader.count("tokens", from.tokens()));
  to.next_sequence = reader.count("next_sequence", from.next_sequence());
  get_leases(reader, "returned", from.returned(), to.returned, kReturnedRunsMax);
  to.carried_steps = reader.count("carried_steps", from.carried_steps());
  to.outer_lr = reader.amount("outer_lr", from.outer_lr());
  get_all(reader, from.averages(), to.averages);
  get_all(reader, from.anchors(), to.anchors);
  get_all(reader, from.momenta(), to.momenta);
  to.next_replica = from.next_replica();
  to.next_checkpoint = from.next_checkpoint();
  for (const v1::MomentumHolder& holder : from.momentum_holders()) {
    const Reader::Inside inside(reader, "momentum_holders");
    get(reader, holder, to.momentum_holders.emplace_back());
    if (!reader.ok()) return;
  }
}

void put(const ResumeAt& from, v1::ResumeAt& to) {
  put(from.key, *to.mutable_key());
  put(from.record, *to.mutable_record());
}
void get(Reader& reader, const v1::ResumeAt& from, ResumeAt& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  get_part(reader, "record", from.has_record(), from.record(), to.record);
}

void put(const Evaluated& from, v1::Evaluated& to) {
  put(from.key, *to.mutable_key());
  put(from.slice, *to.mutable_slice());
  to.set_loss_sum(from.loss_sum);
  to.set_tokens(from.tokens.count());
}
void get(Reader& reader, const v1::Evaluated& from, Evaluated& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  get_part(reader, "slice", from.has_slice(), from.slice(), to.slice);
  to.loss_sum = from.loss_sum();
  to.tokens = Tokens(reader.count("tokens", from.tokens()));
}

void put(const OpenRound& from, v1::OpenRound& to) {
  put(from.key, *to.mutable_key());
  to.set_from_step(from.from_step.count());
  to.set_to_step(from.to_step.count());
  put(from.leases, *to.mutable_leases());
  to.set_fragment(from.fragment);
  to.set_aborts(from.aborts);
  to.set_entropy_coding(from.entropy_coding);
  for (const PeerAddress& peer : from.measure) {
    auto& wire = *to.add_measure();
    wire.set_replica(peer.replica.n);
    wire.set_address(peer.address);
  }
}
void get(Reader& reader, const v1::OpenRound& from, OpenRound& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  to.from_step = Steps(reader.count("from_step", from.from_step()));
  to.to_step = Steps(reader.count("to_step", from.to_step()));
  reader.require(to.from_step <= to.to_step, "to_step", "must not be below from_step");
  get_leases(reader, "leases", from.leases(), to.leases, kLeaseRunsMax);
  to.fragment = static_cast<std::int32_t>(reader.count("fragment", from.fragment()));
  to.aborts = static_cast<std::int32_t>(reader.count("aborts", from.aborts()));
  to.entropy_coding = from.entropy_coding();
  reader.require(static_cast<std::size_t>(from.measure_size()) <= kMeasuresMax, "measure",
                 "must be at most 3");
  if (!reader.ok()) return;
  for (const auto& peer : from.measure()) {
    to.measure.push_back(
        {reader.id<ReplicaTag>("measure.replica", peer.replica()), peer.address()});
  }
}

void put(const CloseRound& from, v1::CloseRound& to) { put(from.key, *to.mutable_key()); }
void get(Reader& reader, const v1::CloseRound& from, CloseRound& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
}

void put(const ReducePlan& from, v1::ReducePlan& to) {
  put(from.key, *to.mutable_key());
  to.set_attempt(from.attempt);
  to.set_topology(to_string(from.topology));
  to.set_codec(to_string(from.codec));
  to.set_aggregator(to_string(from.aggregator));
  to.set_value_count(from.value_count);
  to.set_frame_values(from.frame_values);
  to.set_entropy_coding(from.entropy_coding);
  for (const auto& member : from.members) put(member, *to.add_members());
  to.set_time_limit_ns(from.time_limit.ns);
  to.set_fragment(from.fragment);
  to.set_outer_lr(from.outer_lr);
  if (from.owner_step) put(*from.owner_step, *to.mutable_owner_step());
}
void get(Reader& reader, const v1::ReducePlan& from, ReducePlan& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  to.attempt = attempt_of(reader, from.attempt());
  get_word(reader, "topology", from.topology(), to.topology);
  reader.require(to.topology <= Topology::kParamServer, "topology",
                 "must be one that a plan can have: groups reduce by a butterfly");
  get_word(reader, "codec", from.codec(), to.codec);
  get_word(reader, "aggregator", from.aggregator(), to.aggregator);
  to.value_count = reader.count("value_count", from.value_count());
  to.frame_values = reader.count("frame_values", from.frame_values());
  to.entropy_coding = from.entropy_coding();
  reader.require(to.frame_values >= 1 && to.frame_values <= outer_opt::kFrameValuesMax,
                 "frame_values", "must be in [1, 1048576]");
  std::int64_t next = 0;
  for (const auto& member : from.members()) {
    const Reader::Inside inside(reader, "members");
    get(reader, member, to.members.emplace_back());
    if (!reader.ok()) return;
    const auto& read = to.members.back();
    reader.require(read.part_first == next && read.part_count <= to.value_count - next,
                   "part_count", "parts must follow one another and end with the vector");
    if (reader.ok()) next += read.part_count;
  }
  const std::int64_t covered = to.topology == Topology::kAllgather ? 0 : to.value_count;
  reader.require(next == covered, "members", "parts must cover the vector, but in an all-gather");
  to.time_limit = nanoseconds(from.time_limit_ns());
  reader.require(to.time_limit.ns > 0, "time_limit_ns", "must be above 0");
  to.fragment = static_cast<std::int32_t>(reader.count("fragment", from.fragment()));
  to.outer_lr = from.outer_lr();
  if (from.has_owner_step()) get(reader, from.owner_step(), to.owner_step.emplace());
}

void put(const CommitRound& from, v1::CommitRound& to) {
  put(from.key, *to.mutable_key());
  to.set_attempt(from.attempt);
  put(from.average, *to.mutable_average());
  to.set_outer_lr(from.outer_lr);
  to.set_outcome(to_string(from.outcome));
  to.set_share(from.share);
  to.set_decay(from.decay);
  to.set_push(from.push);
  to.set_keeps(from.keeps);
  put(from.record, *to.mutable_record());
  put(from.evaluate, *to.mutable_evaluate());
  to.set_last(from.last);
  if (!from.last) put(from.next, *to.mutable_next());
}
void get(Reader& reader, const v1::CommitRound& from, CommitRound& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  to.attempt = attempt_of(reader, from.attempt());
  get(reader, from.average(), to.average);
  to.outer_lr = from.outer_lr();
  get_word(reader, "outcome", from.outcome(), to.outcome);
  to.share = from.share();
  to.decay = from.decay();
  to.push = from.push();
  to.keeps = from.keeps();
  get_part(reader, "record", from.has_record(), from.record(), to.record);
  reader.require(to.share >= 0 && to.share <= 1, "share", "must be from 0 to 1");
  get_part(reader, "evaluate", from.has_evaluate(), from.evaluate(), to.evaluate);
  to.last = from.last();
  if (!to.last) get_part(reader, "next", from.has_next(), from.next(), to.next);
}

void put(const AbortRound& from, v1::AbortRound& to) {
  put(from.key, *to.mutable_key());
  to.set_reason(to_string(from.reason));
  put(from.next, *to.mutable_next());
}
void get(Reader& reader, const v1::AbortRound& from, AbortRound& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  get_word(reader, "reason", from.reason(), to.reason);
  get_part(reader, "next", from.has_next(), from.next(), to.next);
}

void put(const Evaluate& from, v1::Evaluate& to) {
  put(from.key, *to.mutable_key());
  put(from.slice, *to.mutable_slice());
}
void get(Reader& reader, const v1::Evaluate& from, Evaluate& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  get_part(reader, "slice", from.has_slice(), from.slice(), to.slice);
}

}  // namespace shoal::proto
