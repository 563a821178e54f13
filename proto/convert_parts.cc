// Field by field, both directions beside each other so that a forgotten field is seen.
#include "proto/convert_parts.h"

#include <cmath>
#include <limits>

#include "outer_opt/core/codec/frame.h"
#include "proto/job_spec_text.h"

namespace shoal::proto {
namespace {

// Every enumerator in order; the word of each is its to_string().
template <typename E>
constexpr E kLastWord{};
template <>
constexpr Code kLastWord<Code> = Code::kInternal;
template <>
constexpr DeviceKind kLastWord<DeviceKind> = DeviceKind::kReducer;
template <>
constexpr ReplicaFailure kLastWord<ReplicaFailure> = ReplicaFailure::kInternal;
template <>
constexpr ReduceFailure kLastWord<ReduceFailure> = ReduceFailure::kInternal;
template <>
constexpr SourceKind kLastWord<SourceKind> = SourceKind::kCheckpoint;
template <>
constexpr ReleaseReason kLastWord<ReleaseReason> = ReleaseReason::kDraining;
template <>
constexpr AbortReason kLastWord<AbortReason> = AbortReason::kBelowMinReplicas;
template <>
constexpr RoundOutcome kLastWord<RoundOutcome> = RoundOutcome::kDropped;
template <>
constexpr Topology kLastWord<Topology> = Topology::kParamServer;  // a plan is never auto
template <>
constexpr CodecKind kLastWord<CodecKind> = CodecKind::kSparse2;
template <>
constexpr Aggregator kLastWord<Aggregator> = Aggregator::kCenteredClip;

template <typename E>
void get_word(Reader& reader, std::string_view field, const std::string& word, E& to) {
  for (int i = 0; i <= static_cast<int>(kLastWord<E>); ++i) {
    if (word == to_string(static_cast<E>(i))) return void(to = static_cast<E>(i));
  }
  reader.refuse(field, "unknown word '" + word.substr(0, 64) + "'");
}

template <typename Wire>
void put_ids(const std::vector<ReplicaId>& from, Wire& to) {
  for (const ReplicaId id : from) to.Add(id.n);
}
template <typename Wire>
void get_ids(Reader& reader, std::string_view field, const Wire& from, std::vector<ReplicaId>& to) {
  for (const auto id : from) to.push_back(reader.id<ReplicaTag>(field, id));
}

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

std::int32_t attempt_of(Reader& reader, std::int32_t attempt) {
  return static_cast<std::int32_t>(reader.count("attempt", attempt));
}

}  // namespace

bool is_hex(std::string_view text, std::size_t length) {
  return text.size() == length &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

void Reader::refuse(std::string_view field, std::string message) {
  if (!status_.ok()) return;
  std::string path = path_ + std::string(field);
  if (path.ends_with('.')) path.pop_back();
  status_ = Error{Code::kInvalidArgument, std::move(message), std::move(path), ""};
}

std::int64_t Reader::count(std::string_view field, std::int64_t value) {
  if (value < 0) refuse(field, "must not be negative, got " + std::to_string(value));
  return value;
}

double Reader::amount(std::string_view field, double value) {
  if (!(std::isfinite(value) && value >= 0)) refuse(field, "must be finite and not negative");
  return value;
}

void put(const RoundKey& from, v1::RoundKey& to) {
  to.set_job(from.job.n);
  to.set_lineage(from.lineage);
  to.set_round(from.round);
}
void get(Reader& reader, const v1::RoundKey& from, RoundKey& to) {
  to = {JobId(from.job()), reader.count("lineage", from.lineage()),
        reader.count("round", from.round())};
}

void put(const Digest& from, v1::Digest& to) {
  to.set_high(from.high);
  to.set_low(from.low);
}
void get(Reader&, const v1::Digest& from, Digest& to) { to = {from.high(), from.low()}; }

void put(const Error& from, v1::Error& to) {
  to.set_code(to_string(from.code));
  to.set_message(from.message);
  to.set_field(from.field);
  to.set_remedy(from.remedy);
}
void get(Reader& reader, const v1::Error& from, Error& to) {
  get_word(reader, "code", from.code(), to.code);
  to.message = from.message();
  to.field = from.field();
  to.remedy = from.remedy();
}

void put(const Device& from, v1::Device& to) {
  to.set_index(from.index);
  to.set_kind(to_string(from.kind));
  to.set_name(from.name);
  to.set_memory_bytes(from.memory.count());
  to.set_gflops(from.gflops);
  to.set_bf16(from.bf16);
}
void get(Reader& reader, const v1::Device& from, Device& to) {
  to.index = static_cast<std::int32_t>(reader.count("index", from.index()));
  get_word(reader, "kind", from.kind(), to.kind);
  to.name = from.name();
  to.memory = Bytes(reader.count("memory_bytes", from.memory_bytes()));
  to.gflops = reader.amount("gflops", from.gflops());
  to.bf16 = from.bf16();
}

void put(const Hello& from, v1::Hello& to) {
  to.set_uid(from.uid);
  to.set_name(from.name);
  to.set_incarnation(from.incarnation.n);
  to.set_protocol(from.protocol);
  to.set_protocol_min(from.protocol_min);
  to.set_version(from.version);
  to.set_host(from.host);
  for (const auto& device : from.devices) put(device, *to.add_devices());
  for (const auto& [key, value] : from.labels) {
    auto* label = to.add_labels();
    label->set_key(key);
    label->set_value(value);
  }
  put_ids(from.replicas, *to.mutable_replicas());
}
void get(Reader& reader, const v1::Hello& from, Hello& to) {
  to.uid = from.uid();
  reader.require(is_hex(to.uid, 32), "uid", "must be 32 lower-case hex characters");
  to.name = from.name();
  reader.require(!to.name.empty() && to.name.size() <= 256, "name",
                 "must have 1 to 256 characters");
  to.incarnation = {from.incarnation()};
  to.protocol = from.protocol();
  to.protocol_min = from.protocol_min();
  to.version = from.version();
  to.host = from.host();
  for (const auto& device : from.devices()) {
    const Reader::Inside inside(reader, "devices");
    get(reader, device, to.devices.emplace_back());
  }
  for (const auto& label : from.labels()) to.labels.emplace_back(label.key(), label.value());
  get_ids(reader, "replicas", from.replicas(), to.replicas);
}

void put(const Heartbeat& from, v1::Heartbeat& to) {
  to.set_sequence(from.sequence);
  to.set_resident_bytes(from.resident.count());
}
void get(Reader& reader, const v1::Heartbeat& from, Heartbeat& to) {
  to.sequence = reader.count("sequence", from.sequence());
  to.resident = Bytes(reader.count("resident_bytes", from.resident_bytes()));
}

void put(const Loaded& from, v1::Loaded& to) {
  to.set_replica(from.replica.n);
  put(from.key, *to.mutable_key());
  put(from.anchor, *to.mutable_anchor());
  put(from.momentum, *to.mutable_momentum());
  to.set_value_count(from.value_count);
  to.set_address(from.address);
  for (const std::int64_t values : from.fragments) to.add_fragments(values);
}
void get(Reader& reader, const v1::Loaded& from, Loaded& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  get(reader, from.anchor(), to.anchor);
  get(reader, from.momentum(), to.momentum);
  to.value_count = reader.count("value_count", from.value_count());
  to.address = from.address();
  std::int64_t left = to.value_count;
  for (const std::int64_t values : from.fragments()) {
    reader.require(values > 0 && values <= left, "fragments", "must be lengths above 0");
    if (!reader.ok()) return;
    left -= values;
    to.fragments.push_back(values);
  }
  reader.require(left == 0 || to.fragments.empty(), "fragments", "must add up to value_count");
}

void put(const ReplicaFailed& from, v1::ReplicaFailed& to) {
  to.set_replica(from.replica.n);
  to.set_failure(to_string(from.failure));
  to.set_detail(from.detail);
}
void get(Reader& reader, const v1::ReplicaFailed& from, ReplicaFailed& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  get_word(reader, "failure", from.failure(), to.failure);
  to.detail = from.detail();
}

void put(const Progress& from, v1::Progress& to) {
  to.set_replica(from.replica.n);
  put(from.key, *to.mutable_key());
  to.set_step(from.step.count());
  to.set_tokens(from.tokens.count());
  to.set_train_loss(from.train_loss);
  to.set_gradient_norm(from.gradient_norm);
  to.set_lr(from.lr);
  to.set_tokens_per_s(from.tokens_per_s);
}
void get(Reader& reader, const v1::Progress& from, Progress& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  to.step = Steps(reader.count("step", from.step()));
  to.tokens = Tokens(reader.count("tokens", from.tokens()));
  to.train_loss = from.train_loss();
  to.gradient_norm = from.gradient_norm();
  to.lr = from.lr();
  to.tokens_per_s = from.tokens_per_s();
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
}
void get(Reader& reader, const v1::Applied& from, Applied& to) {
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  get(reader, from.anchor(), to.anchor);
  get(reader, from.momentum(), to.momentum);
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

void put(const Goodbye& from, v1::Goodbye& to) { to.set_reason(from.reason); }
void get(Reader&, const v1::Goodbye& from, Goodbye& to) { to.reason = from.reason(); }

void put(const Welcome& from, v1::Welcome& to) {
  to.set_agent(from.agent.n);
  to.set_incarnation(from.incarnation.n);
  to.set_heartbeat_every_ns(from.heartbeat_every.ns);
  to.set_lease_ns(from.lease.ns);
  put_ids(from.keep, *to.mutable_keep());
}
void get(Reader& reader, const v1::Welcome& from, Welcome& to) {
  to.agent = reader.id<AgentTag>("agent", from.agent());
  to.incarnation = {from.incarnation()};
  reader.require(to.incarnation.n != 0, "incarnation", "must not be 0");
  to.heartbeat_every = nanoseconds(from.heartbeat_every_ns());
  reader.require(to.heartbeat_every.ns > 0, "heartbeat_every_ns", "must be above 0");
  to.lease = nanoseconds(from.lease_ns());
  reader.require(to.lease.ns > 0, "lease_ns", "must be above 0");
  get_ids(reader, "keep", from.keep(), to.keep);
}

void put(const StateSource& from, v1::StateSource& to) {
  to.set_kind(to_string(from.kind));
  put(from.key, *to.mutable_key());
  to.set_donor_address(from.donor_address);
  to.set_donor(from.donor.n);
  to.set_checkpoint(from.checkpoint.n);
  put(from.anchor, *to.mutable_anchor());
  put(from.momentum, *to.mutable_momentum());
}
void get(Reader& reader, const v1::StateSource& from, StateSource& to) {
  get_word(reader, "kind", from.kind(), to.kind);
  get_part(reader, "key", from.has_key(), from.key(), to.key);
  to.donor_address = from.donor_address();
  to.donor = ReplicaId(from.donor());
  to.checkpoint = CheckpointId(from.checkpoint());
  get(reader, from.anchor(), to.anchor);
  get(reader, from.momentum(), to.momentum);
  reader.require(to.kind != SourceKind::kPeer || (!to.donor_address.empty() && to.donor), "donor",
                 "a peer source needs donor and donor_address");
  reader.require(to.kind != SourceKind::kCheckpoint || to.checkpoint, "checkpoint",
                 "a checkpoint source needs its id");
}

void put(const Assign& from, v1::Assign& to) {
  to.set_replica(from.replica.n);
  to.set_job(from.job.n);
  to.set_device(from.device);
  to.set_stage(from.stage);
  to.set_spec_json(spec_to_json(from.spec).dump());
  put(from.source, *to.mutable_source());
  for (const UnitRange& range : from.cut) {
    v1::UnitRange& out = *to.add_cut();
    out.set_first(range.first);
    out.set_last(range.last);
  }
}
void get_cut(Reader& reader, const v1::Assign& from, Assign& to) {
  std::int32_t end = 0;
  for (const v1::UnitRange& range : from.cut()) {
    reader.require(range.first() == end && range.last() > range.first(), "cut",
                   "must be ranges of units that follow each other from 0");
    end = range.last();
    to.cut.push_back({range.first(), range.last()});
  }
  const bool covers = end == static_cast<std::int64_t>(to.spec.model.layers) + 2;
  reader.require(covers, "cut", "must cover the embedding, every layer and the head");
  reader.require(to.stage < static_cast<StageIndex>(to.cut.size()), "stage",
                 "must be one of the cut");
}
void get(Reader& reader, const v1::Assign& from, Assign& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  to.job = reader.id<JobTag>("job", from.job());
  to.device = static_cast<std::int32_t>(reader.count("device", from.device()));
  to.stage = static_cast<StageIndex>(reader.count("stage", from.stage()));
  SpecOrProblems read = read_kept_spec(from.spec_json());
  if (read.problems) reader.refuse("spec_json", read.problems->summary);
  to.spec = std::move(read.spec);
  get_part(reader, "source", from.has_source(), from.source(), to.source);
  get_cut(reader, from, to);
}

void put(const Release& from, v1::Release& to) {
  to.set_replica(from.replica.n);
  to.set_reason(to_string(from.reason));
}
void get(Reader& reader, const v1::Release& from, Release& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  get_word(reader, "reason", from.reason(), to.reason);
}

void put(const OpenRound& from, v1::OpenRound& to) {
  put(from.key, *to.mutable_key());
  to.set_from_step(from.from_step.count());
  to.set_to_step(from.to_step.count());
  to.mutable_lease()->set_first(from.lease.first);
  to.mutable_lease()->set_count(from.lease.count);
  to.set_fragment(from.fragment);
  to.set_aborts(from.aborts);
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
  to.lease.first = reader.count("lease.first", from.lease().first());
  to.lease.count = reader.count("lease.count", from.lease().count());
  to.fragment = static_cast<std::int32_t>(reader.count("fragment", from.fragment()));
  to.aborts = static_cast<std::int32_t>(reader.count("aborts", from.aborts()));
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
  get_word(reader, "codec", from.codec(), to.codec);
  get_word(reader, "aggregator", from.aggregator(), to.aggregator);
  to.value_count = reader.count("value_count", from.value_count());
  to.frame_values = reader.count("frame_values", from.frame_values());
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
