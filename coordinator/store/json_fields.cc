#include "coordinator/store/json_fields.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "proto/job_spec_text.h"

namespace shoal::coordinator {
namespace {

using Json = nlohmann::ordered_json;

// Text that is not UTF-8 must not stop the store: its bad bytes are replaced.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Error bad_json(std::string_view text, const std::string& why) {
  return {.code = Code::kDataLoss,
          .message =
              "a stored value cannot be read: " + why + " in " + std::string(text.substr(0, 200)),
          .remedy = "restore state.db from a backup (docs/store.md)"};
}

// Runs `read` on the parsed text; nlohmann reports a missing key or a wrong type by throwing.
template <typename Read>
Status parse(std::string_view text, const Read& read) {
  try {
    read(Json::parse(text));
    return {};
  } catch (const Json::exception& problem) {
    return bad_json(text, problem.what());
  }
}

double number(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

template <typename Enum>
Enum word(const Json& json) {
  const auto value = parse_word<Enum>(json.get<std::string>());
  if (!value) throw Json::other_error::create(501, "unknown word " + json.dump(), nullptr);
  return *value;
}

Json digest_json(const Digest& digest) { return digest ? Json(to_hex(digest)) : Json(""); }

Digest read_digest(const Json& json) {
  const auto text = json.get<std::string>();
  if (text.empty()) return {};
  const auto digest = parse_digest(text);
  if (!digest) throw Json::other_error::create(501, "no digest: " + text, nullptr);
  return *digest;
}

Json units_json(const UnitRange& units) { return {units.first, units.last}; }

UnitRange read_units(const Json& json) {
  return {json.at(0).get<std::int32_t>(), json.at(1).get<std::int32_t>()};
}

Json holders_json(const std::vector<MomentumHolder>& holders) {
  Json json = Json::array();
  for (const MomentumHolder& holder : holders) {
    json.push_back({{"replica", holder.replica.n},
                    {"address", holder.address},
                    {"first", holder.first},
                    {"count", holder.count}});
  }
  return json;
}

std::vector<MomentumHolder> read_holders(const Json& json) {
  std::vector<MomentumHolder> holders;
  for (const Json& item : json) {
    holders.push_back({ReplicaId(item.at("replica").get<std::uint64_t>()),
                       item.at("address").get<std::string>(), item.at("first").get<std::int64_t>(),
                       item.at("count").get<std::int64_t>()});
  }
  return holders;
}

Json files_json(const std::vector<FileEntry>& files) {
  Json json = Json::array();
  for (const FileEntry& file : files) {
    json.push_back({{"path", file.path}, {"size", file.size.n}, {"sha256", file.sha256}});
  }
  return json;
}

std::vector<FileEntry> read_files(const Json& json) {
  std::vector<FileEntry> files;
  for (const Json& item : json) {
    files.push_back({.path = item.at("path").get<std::string>(),
                     .size = Bytes(item.at("size").get<std::int64_t>()),
                     .sha256 = item.at("sha256").get<std::string>()});
  }
  return files;
}

}  // namespace

std::string to_json(const JobSpec& value) {
  const Json json = proto::spec_to_json(value);
  return dump(json);
}

Status from_json(std::string_view text, JobSpec& value) {
  proto::SpecOrProblems read = proto::read_kept_spec(text);
  if (read.problems) {
    std::string why = read.problems->summary;
    for (const FieldError& field : read.problems->fields) {
      why += "; " + field.pointer + ": " + field.detail;
    }
    return bad_json(text, why);
  }
  value = std::move(read.spec);
  return {};
}

std::string to_json(const std::vector<DataLease>& value) {
  Json json = Json::array();
  for (const DataLease& lease : value) json.push_back({lease.first, lease.count});
  return dump(json);
}

Status from_json(std::string_view text, std::vector<DataLease>& value) {
  return parse(text, [&](const Json& json) {
    value.clear();
    for (const Json& item : json) {
      value.push_back({item.at(0).get<std::int64_t>(), item.at(1).get<std::int64_t>()});
    }
  });
}

std::string to_json(const std::vector<MemoryRefusal>& value) {
  Json json = Json::array();
  for (const MemoryRefusal& refusal : value) {
    json.push_back(
        {{"device", refusal.device}, {"needed_bytes", refusal.needed.n}, {"at_ns", refusal.at.ns}});
  }
  return dump(json);
}

Status from_json(std::string_view text, std::vector<MemoryRefusal>& value) {
  return parse(text, [&](const Json& json) {
    value.clear();
    for (const Json& item : json) {
      value.push_back({item.at("device").get<std::int32_t>(),
                       Bytes(item.at("needed_bytes").get<std::int64_t>()),
                       Instant{item.at("at_ns").get<std::int64_t>()}});
    }
  });
}

std::string to_json(const std::vector<Device>& value) {
  Json json = Json::array();
  for (const Device& device : value) {
    json.push_back({{"index", device.index},
                    {"kind", to_string(device.kind)},
                    {"name", device.name},
                    {"memory_bytes", device.memory.n},
                    {"gflops", device.gflops},
                    {"bf16", device.bf16}});
  }
  return dump(json);
}

Status from_json(std::string_view text, std::vector<Device>& value) {
  return parse(text, [&](const Json& json) {
    value.clear();
    for (const Json& item : json) {
      value.push_back({.index = item.at("index").get<std::int32_t>(),
                       .kind = word<DeviceKind>(item.at("kind")),
                       .name = item.at("name").get<std::string>(),
                       .memory = Bytes(item.at("memory_bytes").get<std::int64_t>()),
                       .gflops = number(item.at("gflops")),
                       .bf16 = item.at("bf16").get<bool>()});
    }
  });
}

std::string to_json(const Labels& value) {
  Json json = Json::array();
  for (const auto& [key, text] : value) json.push_back({{"key", key}, {"value", text}});
  return dump(json);
}

Status from_json(std::string_view text, Labels& value) {
  return parse(text, [&](const Json& json) {
    value.clear();
    for (const Json& item : json) {
      value.emplace_back(item.at("key").get<std::string>(), item.at("value").get<std::string>());
    }
  });
}

std::string to_json(const std::vector<JobStage>& value) {
  Json json = Json::array();
  for (const JobStage& stage : value) {
    json.push_back({{"units", units_json(stage.units)},
                    {"value_count", stage.value_count},
                    {"anchor", digest_json(stage.anchor)},
                    {"momentum", digest_json(stage.momentum)},
                    {"fragments", stage.fragments}});
  }
  return dump(json);
}

Status from_json(std::string_view text, std::vector<JobStage>& value) {
  return parse(text, [&](const Json& json) {
    value.clear();
    for (const Json& item : json) {
      value.push_back({.units = read_units(item.at("units")),
                       .value_count = item.at("value_count").get<std::int64_t>(),
                       .anchor = read_digest(item.at("anchor")),
                       .momentum = read_digest(item.at("momentum")),
                       .fragments = item.at("fragments").get<std::vector<std::int64_t>>()});
    }
  });
}

std::string to_json(const std::vector<RoundStage>& value) {
  Json json = Json::array();
  for (const RoundStage& stage : value) {
    json.push_back({{"attempt", stage.attempt},
                    {"attempt_started_at_ns", stage.attempt_started_at.ns},
                    {"average", digest_json(stage.average)},
                    {"anchor", digest_json(stage.anchor)},
                    {"momentum", digest_json(stage.momentum)},
                    {"topology", to_string(stage.choice.topology)},
                    {"topology_reason", to_string(stage.choice.reason)},
                    {"frame_values", stage.frame_values},
                    {"entropy_coding", stage.entropy_coding},
                    {"momentum_holders", holders_json(stage.momentum_holders)},
                    {"given_up", stage.given_up},
                    {"base", digest_json(stage.base)},
                    {"base_momentum", digest_json(stage.base_momentum)}});
  }
  return dump(json);
}

Status from_json(std::string_view text, std::vector<RoundStage>& value) {
  return parse(text, [&](const Json& json) {
    value.clear();
    for (const Json& item : json) {
      value.push_back({.attempt = item.at("attempt").get<std::int32_t>(),
                       .attempt_started_at = {item.at("attempt_started_at_ns").get<std::int64_t>()},
                       .average = read_digest(item.at("average")),
                       .anchor = read_digest(item.at("anchor")),
                       .momentum = read_digest(item.at("momentum")),
                       .choice = {word<Topology>(item.at("topology")),
                                  word<outer_opt::TopologyReason>(item.at("topology_reason"))},
                       .frame_values = item.at("frame_values").get<std::int64_t>(),
                       .entropy_coding = item.at("entropy_coding").get<bool>(),
                       .momentum_holders = read_holders(item.at("momentum_holders")),
                       .given_up = item.at("given_up").get<bool>(),
                       .base = read_digest(item.at("base")),
                       .base_momentum = read_digest(item.at("base_momentum"))});
    }
  });
}

std::string to_json(const std::vector<CheckpointPart>& value) {
  Json json = Json::array();
  for (const CheckpointPart& part : value) {
    json.push_back({{"writer", part.writer.n},
                    {"state", to_string(part.state)},
                    {"anchor", digest_json(part.anchor)},
                    {"momentum", digest_json(part.momentum)},
                    {"files", files_json(part.files)},
                    {"units", units_json(part.units)}});
  }
  return dump(json);
}

Status from_json(std::string_view text, std::vector<CheckpointPart>& value) {
  return parse(text, [&](const Json& json) {
    value.clear();
    for (const Json& item : json) {
      value.push_back(
          {.writer = ReplicaId(item.at("writer").get<std::uint64_t>()),
           .state = word<CheckpointState>(item.at("state")),
           .anchor = read_digest(item.at("anchor")),
           .momentum = read_digest(item.at("momentum")),
           .files = read_files(item.at("files")),
           .units = item.contains("units") ? read_units(item.at("units")) : UnitRange{}});
    }
  });
}

std::string to_json(const StateSource& value) {
  return dump({{"kind", to_string(value.kind)},
               {"job", value.key.job.n},
               {"lineage", value.key.lineage},
               {"round", value.key.round},
               {"donor_address", value.donor_address},
               {"donor", value.donor.n},
               {"checkpoint", value.checkpoint.n},
               {"anchor", digest_json(value.anchor)},
               {"momentum", digest_json(value.momentum)}});
}

Status from_json(std::string_view text, StateSource& value) {
  return parse(text, [&](const Json& json) {
    value = {.kind = word<SourceKind>(json.at("kind")),
             .key = {.job = JobId(json.at("job").get<std::uint64_t>()),
                     .lineage = json.at("lineage").get<std::int64_t>(),
                     .round = json.at("round").get<std::int64_t>()},
             .donor_address = json.at("donor_address").get<std::string>(),
             .donor = ReplicaId(json.at("donor").get<std::uint64_t>()),
             .checkpoint = CheckpointId(json.at("checkpoint").get<std::uint64_t>()),
             .anchor = read_digest(json.at("anchor")),
             .momentum = read_digest(json.at("momentum"))};
  });
}

}  // namespace shoal::coordinator
