#include "coordinator/store/manifest.h"

#include <algorithm>
#include <utility>

#include "base/sha256.h"
#include "coordinator/store/json_fields.h"

namespace shoal::coordinator {
namespace {

// 3: files have roles, and part files are among them. 2 and 1 are read, never written.
constexpr int kVersion = 3;
constexpr int kVersionWithoutDigest = 1;
constexpr const char* kDigest = "digest";
// More rounds, steps or tokens than any run has. What is beyond was not written by a coordinator.
constexpr std::int64_t kCountMax = std::int64_t{1} << 50;
// After a restored backup epochs begin with the time of day (core/restoring.cc).
constexpr std::int64_t kEpochMax = std::int64_t{1} << 53;

// The digest of all other content, however it is laid out.
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

// Version 0.1.0 called the epoch otherwise.
Json with_todays_names(Json json) {
  if (!json.contains("lineage")) return json;
  Json epoch = json.at("lineage");
  json["epoch"] = std::move(epoch);
  return json;
}

bool is_plausible(const CheckpointRecord& checkpoint) {
  const auto counts = {std::int64_t{checkpoint.key.round}, checkpoint.step.count(),
                       checkpoint.tokens.count(), checkpoint.next_sequence};
  return checkpoint.key.epoch >= 0 && checkpoint.key.epoch <= kEpochMax && checkpoint.id.n > 0 &&
         checkpoint.key.job.n > 0 &&
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
  json.update(json_of(checkpoint));
  // Through text: what is no UTF-8, in the sample, is replaced before the digest is taken.
  json = Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  json[kDigest] = digest_of(json);
  return json.dump(2) + "\n";
}

Result<CheckpointRecord> read_manifest(std::string_view text) {
  const auto none = [](const std::string& why) {
    return Error{Code::kDataLoss, "not a checkpoint manifest: " + why};
  };
  try {
    const Json json = Json::parse(text);
    if (json.at("version").get<int>() > kVersion) {
      return Error{Code::kIncompatible, "the manifest is of a newer version", kManifestFile,
                   "use the newer Shoal"};
    }
    if (Status s = check_digest(json); !s.ok()) return none(s.error().message);
    CheckpointRecord checkpoint;
    read_json(with_todays_names(json), checkpoint);
    if (!is_plausible(checkpoint)) return none("its numbers are out of range");
    if (!is_stored(checkpoint)) return none("it was not stored");
    return checkpoint;
  } catch (const Json::exception& problem) {
    return none(problem.what());
  }
}

}  // namespace shoal::coordinator
