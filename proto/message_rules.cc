#include "proto/message_rules.h"

#include "base/text.h"
#include "base/wire_text.h"
#include "outer_opt/core/codec/frame.h"

namespace shoal::proto {
namespace {

// Bounds of what an agent reports about itself. No host has more, and all of it is kept and shown.
constexpr std::size_t kNameMax = 256, kLibrariesMax = 1024;
constexpr std::size_t kDevicesMax = 256, kLabelsMax = 64, kReplicasMax = 1024;
constexpr const char* kPlain = "must be text without control characters, of at most 256 bytes";
constexpr const char* kPlainRole = "must be text without control characters";
constexpr const char* kHostPort = "must be host:port";
constexpr const char* kSha256 = "must be 64 lower-case hex characters";
constexpr const char* kTooHigh = "must not be above 2^62";

// Stays below the folder it is put into: relative, no empty, "." or ".." segment.
bool is_inside_folder(std::string_view path) {
  if (path.empty() || path.size() > 1024 || path.find('\0') != std::string_view::npos) return false;
  while (true) {
    const auto slash = path.find('/');
    const auto segment = path.substr(0, slash);
    if (segment.empty() || segment == "." || segment == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

void check_cut(Reader& reader, const std::vector<UnitRange>& cut, const JobSpec& spec,
               StageIndex stage) {
  std::int32_t end = 0;
  for (const UnitRange& range : cut) {
    reader.require(range.first == end && range.last > range.first, "cut",
                   "must be ranges of units that follow each other from 0");
    end = range.last;
  }
  const bool covers = end == static_cast<std::int64_t>(spec.model.layers) + 2;
  reader.require(covers, "cut", "must cover the embedding, every layer and the head");
  reader.require(stage < static_cast<StageIndex>(cut.size()), "stage", "must be one of the cut");
}

void check_fragments(Reader& reader, const std::vector<std::int64_t>& fragments,
                     std::int64_t value_count) {
  if (fragments.empty()) return;
  std::int64_t left = value_count;
  for (const std::int64_t values : fragments) {
    reader.require(values > 0 && values <= left, "fragments", "must be lengths above 0");
    if (!reader.ok()) return;
    left -= values;
  }
  reader.require(left == 0, "fragments", "must add up to value_count");
}

}  // namespace

void Reader::refuse(std::string_view field, std::string message) {
  if (!status_.ok()) return;
  std::string path = path_ + std::string(field);
  if (path.ends_with('.')) path.pop_back();
  status_ = Error{Code::kInvalidArgument, std::move(message), std::move(path), ""};
}

void check(Reader& reader, const Hello& hello) {
  reader.require(is_hex(hello.uid, 32), "uid", "must be 32 lower-case hex characters");
  reader.require(!hello.name.empty() && is_plain_text(hello.name, kNameMax), "name",
                 "must have 1 to 256 bytes of text without control characters");
  reader.require(is_plain_text(hello.version, kNameMax), "version", kPlain);
  reader.require(hello.host.empty() || is_host_text(hello.host), "host",
                 "must be an address or a name without a port");
  reader.require(hello.devices.size() <= kDevicesMax, "devices", "must be at most 256");
  reader.require(hello.labels.size() <= kLabelsMax, "labels", "must be at most 64");
  for (const auto& [key, value] : hello.labels) {
    const bool fits = is_plain_text(key, kNameMax) && is_plain_text(value, kNameMax);
    reader.require(fits, "labels", kPlain);
  }
  reader.require(hello.replicas.size() <= kReplicasMax, "replicas", "must be at most 1024");
  for (const std::string& owner : hello.code_from) {
    reader.require(!owner.empty() && is_plain_text(owner, kNameMax), "code_from", kPlain);
  }
  reader.require(hello.relay.empty() || is_host_port_text(hello.relay), "relay", kHostPort);
}

void check(Reader& reader, const Relays& relays) {
  for (const std::string& address : relays.addresses) {
    reader.require(is_host_port_text(address), "addresses", kHostPort);
  }
}

void check(Reader& reader, const Device& device) {
  reader.require(is_plain_text(device.name, kNameMax), "name", kPlain);
  reader.require(is_plain_text(device.uuid, kNameMax), "uuid", kPlain);
}

void check(Reader& reader, const DeviceSample& sample) {
  reader.require(is_plain_text(sample.uuid, kNameMax), "uuid", kPlain);
  reader.require(is_plain_text(sample.error, kNameMax), "error", kPlain);
  if (sample.use) {
    reader.require(sample.use->busy <= 1, "use.busy", "must be at most 1");
    reader.require(sample.use->stolen <= 1, "use.stolen", "must be at most 1");
    reader.require(sample.use->busy_elsewhere <= 1, "use.busy_elsewhere", "must be at most 1");
  }
  if (!sample.climate) return;
  for (const std::string& reason : sample.climate->throttled) {
    reader.require(is_plain_text(reason, kNameMax), "climate.throttled", kPlain);
  }
}

void check(Reader& reader, const TrainerReady& ready) {
  reader.require(ready.peer_address.empty() || is_host_port_text(ready.peer_address),
                 "peer_address", kHostPort);
  reader.require(is_plain_text(ready.libraries, kLibrariesMax), "libraries", kPlain);
}

// A restored job raises them: they must leave room.
void check(Reader& reader, const RoundKey& key) {
  reader.require(key.epoch <= kCountMax, "epoch", kTooHigh);
  reader.require(key.round <= kCountMax, "round", kTooHigh);
}

void check(Reader& reader, const DataLease& lease) {
  reader.require(lease.first <= kCountMax && lease.count <= kCountMax - lease.first, "count",
                 "must end below 2^62");
}

void check(Reader& reader, const CommitProof& proof) {
  reader.require(is_plain_text(proof.job_name, kNameMax), "job_name", kPlain);
  reader.require(is_plain_text(proof.owner, kNameMax), "owner", kPlain);
  reader.require(is_plain_text(proof.key_id, kNameMax), "key_id", kPlain);
  reader.require(is_hex(proof.spec_sha256, 64), "spec_sha256", kSha256);
  reader.require(is_hex(proof.mac, 64), "mac", kSha256);
}

void check(Reader& reader, const CommitRecord& record) {
  std::int64_t at = 0;
  for (const DataLease& run : record.returned) {
    const bool follows = run.first >= at && run.count > 0;
    reader.require(follows, "returned", "must be runs above 0 that follow one another");
    at = run.first + run.count;
  }
  reader.require(at <= record.next_sequence, "returned", "must end at or below next_sequence");
  reader.require(record.next_sequence <= kCountMax, "next_sequence", kTooHigh);
  reader.require(record.step.n <= kCountMax, "step", kTooHigh);
  reader.require(record.tokens.n <= kCountMax, "tokens", kTooHigh);
}

void check(Reader& reader, HeldReplica& held) {
  reader.require(held.address.empty() || is_host_port_text(held.address), "address", kHostPort);
  check_fragments(reader, held.fragments, held.value_count);
  if (held.spec != JobSpec{}) {
    check_cut(reader, held.cut, held.spec, held.stage);
    reader.require(held.record.step <= held.spec.train.steps, "record.step",
                   "must not be above train.steps");
  }
  if (held.key == RoundKey{}) {  // not said
    held.key = {held.job, 0, -1};
    return;
  }
  reader.require(held.record.key == held.key, "record", "must be of the round that is held");
}

void check(Reader& reader, const Loaded& loaded) {
  reader.require(loaded.address.empty() || is_host_port_text(loaded.address), "address", kHostPort);
  check_fragments(reader, loaded.fragments, loaded.value_count);
}

// A name is a key of the store, and stands in queries and charts.
void check(Reader& reader, const LoggedValue& logged) {
  reader.require(is_logged_name(logged.name), "name", kLoggedNameRule);
}

// Names stand in events.
void check(Reader& reader, const TensorShape& tensor) {
  reader.require(is_plain_text(tensor.name, kTensorNameBytesMax), "name",
                 "must be text without control characters, of at most 200 bytes");
  reader.require(is_plain_text(tensor.type, kTensorTypeBytesMax), "type",
                 "must be text without control characters, of at most 16 bytes");
}

void check(Reader& reader, const Welcome& welcome) {
  reader.require(welcome.incarnation.n != 0, "incarnation", "must not be 0");
  reader.require(welcome.heartbeat_every.ns > 0, "heartbeat_every_ns", "must be above 0");
  reader.require(welcome.lease.ns > 0, "lease_ns", "must be above 0");
  for (const std::string& address : welcome.relays) {
    reader.require(is_host_port_text(address), "relays", kHostPort);
  }
}

void check(Reader& reader, const StateSource& source) {
  const bool from_peer = source.kind == SourceKind::kPeer;
  reader.require(!from_peer || (!source.address.empty() && source.replica), "replica",
                 "a peer source needs replica and address");
  reader.require(source.kind != SourceKind::kCheckpoint || source.checkpoint, "checkpoint",
                 "a checkpoint source needs its id");
}

void check(Reader& reader, const Assign& assign) {
  reader.require(is_plain_text(assign.owner, kNameMax), "owner", kPlain);
  check_cut(reader, assign.cut, assign.spec, assign.stage);
  const bool from_checkpoint = assign.source.kind == SourceKind::kCheckpoint;
  reader.require(from_checkpoint || assign.checkpoint_parts == 0, "checkpoint_parts",
                 "must be 0 unless the source is a checkpoint");
}

void check(Reader& reader, const FileEntry& file) {
  reader.require(is_inside_folder(file.path), "path",
                 "must be relative and stay inside its folder");
  reader.require(is_hex(file.sha256, 64), "sha256", kSha256);
  reader.require(is_plain_text(file.role, kFileRoleBytesMax), "role", kPlainRole);
}

void check(Reader& reader, const WriteCheckpointTo& command) {
  reader.require(!command.folder.empty(), "folder", "must not be empty");
}

void check(Reader& reader, const OpenRound& order) {
  reader.require(order.from_step <= order.to_step, "to_step", "must not be below from_step");
}

void check(Reader& reader, const EvalSlice& slice) {
  reader.require(slice.slices == 0 || slice.slice < slice.slices, "slice", "must be below slices");
}

void check(Reader& reader, const OwnerStep& step) {
  reader.require(step.outer.lr > 0, "lr", "must be above 0");
}

void check(Reader& reader, const ReduceMember& member) {
  reader.require(member.clip_factor > 0 && member.clip_factor <= 1, "clip_factor",
                 "must be above 0 and at most 1");
}

void check(Reader& reader, const ReducePlan& plan) {
  reader.require(plan.topology <= Topology::kParamServer, "topology",
                 "must be one that a plan can have: groups reduce by a butterfly");
  reader.require(plan.frame_values >= 1 && plan.frame_values <= outer_opt::kFrameValuesMax,
                 "frame_values", "must be in [1, 1048576]");
  std::int64_t next = 0;
  for (const ReduceMember& member : plan.members) {
    if (member.part_first != next || member.part_count > plan.value_count - next) {
      return reader.refuse("members.part_count",
                           "parts must follow one another and end with the vector");
    }
    next += member.part_count;
  }
  const std::int64_t covered = plan.topology == Topology::kAllgather ? 0 : plan.value_count;
  reader.require(next == covered, "members", "parts must cover the vector, but in an all-gather");
  reader.require(plan.time_limit.ns > 0, "time_limit_ns", "must be above 0");
  std::int64_t audited = 0;
  for (const AuditedRange& range : plan.audited) {
    const bool fits = range.count > 0 && range.count <= plan.value_count - audited;
    if (!fits) return reader.refuse("audited.count", "must be above 0 and add up to value_count");
    audited += range.count;
  }
  reader.require(plan.audited.empty() || audited == plan.value_count, "audited",
                 "must add up to value_count");
}

void check(Reader& reader, const CommitRound& commit) {
  reader.require(commit.share >= 0 && commit.share <= 1, "share", "must be from 0 to 1");
  reader.require(commit.last || !is_none(commit.next), "next", "is missing");
}

void check(Reader& reader, const StageCopy& copy) {
  reader.require(copy.value_count > 0, "value_count", "must be above 0");
}

void check(Reader& reader, const MeasureLine& asked) {
  reader.require(asked.answer_bytes <= kLinePayloadMax, "answer_bytes", "must be at most 1 MiB");
}

void check(Reader& reader, const LogLine& line) {
  reader.require(line.at.ns > 0, "at_ns", "must be above 0");
}

void check(Reader& reader, const LogQuery& query) {
  reader.require(query.limit >= 1 && query.limit <= kLogLinesMax, "limit",
                 "must be from 1 to 1000");
}

}  // namespace shoal::proto
