#include "coordinator/store/manifest.h"

#include <algorithm>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "coordinator/store/rows.h"
#include "transfer/sha256.h"

namespace shoal::coordinator {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 2;
constexpr int kVersionWithoutDigest = 1;  // read, never written
constexpr const char* kDigest = "digest";
// More rounds, steps or tokens than any run has. What is beyond was not written by a coordinator.
constexpr std::int64_t kCountMax = std::int64_t{1} << 50;

// The fields are those of the table, by the same names.
struct WriteVisitor {
  Json& json;
  template <typename T>
  void operator()(const std::string& name, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      json[name] = to_string(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      json[name] = value;
    } else if constexpr (std::is_same_v<T, Instant>) {
      json[name] = value.ns;
    } else if constexpr (Counted<T>) {
      json[name] = value.n;
    } else {
      json[name] = Json::parse(to_json(value));
    }
  }
};

struct ReadManifestVisitor {
  const Json& json;
  Status status;
  template <typename T>
  void operator()(const std::string& name, T& value) {
    if (status.ok()) status = read(json.at(name), value);
  }
  template <typename T>
  static Status read(const Json& from, T& value) {
    if constexpr (std::is_enum_v<T>) {
      const auto word = parse_word<T>(from.get<std::string>());
      if (!word) return Error{Code::kDataLoss, "unknown word " + from.dump()};
      value = *word;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      value = from.get<T>();
    } else if constexpr (std::is_same_v<T, Instant>) {
      value.ns = from.get<std::int64_t>();
    } else if constexpr (Counted<T>) {
      value.n = from.get<decltype(value.n)>();
    } else {
      return from_json(from.dump(), value);
    }
    return {};
  }
};

// Of everything else that it says, however it is laid out.
std::string digest_of(Json json) {
  json.erase(kDigest);
  return sha256_of(json.dump());
}

Status check_digest(const Json& json) {
  const bool has_one = json.contains(kDigest);
  if (!has_one && json.at("version").get<int>() == kVersionWithoutDigest) return {};
  if (has_one && json.at(kDigest) == digest_of(json)) return {};
  return Error{Code::kDataLoss, "it is not what was written (another digest)"};
}

bool is_plausible(const CheckpointRecord& checkpoint) {
  const auto counts = {checkpoint.key.lineage, std::int64_t{checkpoint.key.round},
                       checkpoint.step.count(), checkpoint.tokens.count(),
                       checkpoint.next_sequence};
  return checkpoint.id.n > 0 && checkpoint.key.job.n > 0 &&
         std::ranges::all_of(counts, [](std::int64_t n) { return n >= 0 && n <= kCountMax; });
}

bool is_stored(const CheckpointRecord& checkpoint) {
  const bool parts = std::ranges::all_of(checkpoint.parts, [](const CheckpointPart& part) {
    return part.state == CheckpointState::kStored && !part.files.empty();
  });
  return checkpoint.state == CheckpointState::kStored && !checkpoint.parts.empty() && parts;
}

}  // namespace

std::string to_manifest(const CheckpointRecord& checkpoint) {
  Json json{{"version", kVersion}};
  WriteVisitor visitor{json};
  Table<CheckpointRecord>::columns(visitor, checkpoint);
  // Through text: what is no UTF-8, in the sample, is replaced before the digest is taken.
  json = Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  json[kDigest] = digest_of(json);
  return json.dump(2) + "\n";
}

Result<CheckpointRecord> read_manifest(std::string_view text) {
  const auto none = [](const std::string& why) {
    return Error{Code::kDataLoss, "no manifest of a checkpoint: " + why};
  };
  try {
    const Json json = Json::parse(text);
    if (json.at("version").get<int>() > kVersion) {
      return Error{Code::kIncompatible, "the manifest is of a newer version", kManifestFile,
                   "use the newer Shoal"};
    }
    if (Status s = check_digest(json); !s.ok()) return none(s.error().message);
    CheckpointRecord checkpoint;
    ReadManifestVisitor visitor{json, {}};
    Table<CheckpointRecord>::columns(visitor, checkpoint);
    if (!visitor.status.ok()) return none(to_string(visitor.status.error()));
    if (!is_plausible(checkpoint)) return none("its numbers are beyond any run");
    if (!is_stored(checkpoint)) return none("it was not stored");
    return checkpoint;
  } catch (const Json::exception& problem) {
    return none(problem.what());
  }
}

}  // namespace shoal::coordinator
