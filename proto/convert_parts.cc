// The Reader, and the bodies of agents and replicas. Field by field, both directions beside each
// other so that a forgotten field is seen.
#include "proto/convert_parts.h"

#include <cmath>

#include "proto/job_spec_text.h"

namespace shoal::proto {

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

// The job as whoever holds a replica of it keeps it: spec and cut.
template <typename Wire>
void put_cut(const std::vector<UnitRange>& cut, Wire& to) {
  for (const UnitRange& range : cut) {
    v1::UnitRange& out = *to.add_cut();
    out.set_first(range.first);
    out.set_last(range.last);
  }
}
template <typename Wire, typename Message>
void get_spec_and_cut(Reader& reader, const Wire& from, Message& to) {
  SpecOrProblems read = read_kept_spec(from.spec_json());
  if (read.problems) reader.refuse("spec_json", read.problems->summary);
  to.spec = std::move(read.spec);
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

void put(const HeldReplica& from, v1::HeldReplica& to) {
  to.set_replica(from.replica.n);
  to.set_store(from.store);
  to.set_job(from.job.n);
  to.set_stage(from.stage);
  to.set_device(from.device);
  if (!from.spec.name.empty()) {
    to.set_spec_json(spec_to_json(from.spec).dump());
    put_cut(from.cut, to);
  }
  if (from.key.round < 0) return;
  put(from.key, *to.mutable_key());
  put(from.anchor, *to.mutable_anchor());
  put(from.momentum, *to.mutable_momentum());
  to.set_value_count(from.value_count);
  to.set_address(from.address);
  for (const std::int64_t values : from.fragments) to.add_fragments(values);
  put(from.record, *to.mutable_record());
}
void get(Reader& reader, const v1::HeldReplica& from, HeldReplica& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  to.store = from.store();
  to.job = reader.id<JobTag>("job", from.job());
  to.stage = static_cast<StageIndex>(reader.count("stage", from.stage()));
  to.device = static_cast<std::int32_t>(reader.count("device", from.device()));
  to.key = {to.job, 0, -1};
  if (!from.spec_json().empty()) get_spec_and_cut(reader, from, to);
  if (!from.has_key()) return;
  get_part(reader, "key", true, from.key(), to.key);
  get(reader, from.anchor(), to.anchor);
  get(reader, from.momentum(), to.momentum);
  to.value_count = reader.count("value_count", from.value_count());
  to.address = from.address();
  to.fragments.assign(from.fragments().begin(), from.fragments().end());
  get_part(reader, "record", from.has_record(), from.record(), to.record);
  reader.require(to.record.key == to.key, "record", "must be of the round that is held");
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
  for (const HeldReplica& held : from.replicas) put(held, *to.add_replicas());
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
  for (const v1::HeldReplica& held : from.replicas()) {
    const Reader::Inside inside(reader, "replicas");
    get(reader, held, to.replicas.emplace_back());
    if (!reader.ok()) return;
  }
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
  put(from.data, *to.mutable_data());
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
  get(reader, from.data(), to.data);
}

void put(const LoadProgress& from, v1::LoadProgress& to) {
  to.set_replica(from.replica.n);
  to.set_done_bytes(from.done.count());
  to.set_total_bytes(from.total.count());
}
void get(Reader& reader, const v1::LoadProgress& from, LoadProgress& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  to.done = Bytes(reader.count("done_bytes", from.done_bytes()));
  to.total = Bytes(reader.count("total_bytes", from.total_bytes()));
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
  put_cut(from.cut, to);
  put(from.record, *to.mutable_record());
  to.set_store(from.store);
}
void get(Reader& reader, const v1::Assign& from, Assign& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  to.job = reader.id<JobTag>("job", from.job());
  to.device = static_cast<std::int32_t>(reader.count("device", from.device()));
  to.stage = static_cast<StageIndex>(reader.count("stage", from.stage()));
  get_part(reader, "source", from.has_source(), from.source(), to.source);
  get_part(reader, "record", from.has_record(), from.record(), to.record);
  to.store = from.store();
  get_spec_and_cut(reader, from, to);
}

void put(const Release& from, v1::Release& to) {
  to.set_replica(from.replica.n);
  to.set_reason(to_string(from.reason));
}
void get(Reader& reader, const v1::Release& from, Release& to) {
  to.replica = reader.id<ReplicaTag>("replica", from.replica());
  get_word(reader, "reason", from.reason(), to.reason);
}

}  // namespace shoal::proto
