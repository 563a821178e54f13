#include "coordinator/service/machines/record_key_file.h"

#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "identity/private_file.h"
#include "identity/secret.h"

namespace shoal::coordinator {
namespace {

using Json = nlohmann::json;

std::optional<RecordKey> key_of(const Json& entry) {
  if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) return std::nullopt;
  if (!entry.contains("secret") || !entry["secret"].is_string()) return std::nullopt;
  if (!entry.contains("made_at_ns") || !entry["made_at_ns"].is_number_integer()) {
    return std::nullopt;
  }
  RecordKey key{entry["id"], entry["secret"], Instant{entry["made_at_ns"].get<std::int64_t>()}};
  if (number_of_key(key.id) <= 0 || !identity::is_secret(key.secret)) return std::nullopt;
  return key;
}

bool has_ended(ReplicaState state) {
  return state == ReplicaState::kReleased || state == ReplicaState::kFailed;
}

}  // namespace

Result<RecordKeyFile> RecordKeyFile::open(const std::string& folder, const std::string& cluster,
                                          const Snapshot& snapshot, Instant now) {
  RecordKeyFile file(folder + kRecordKeyFile, cluster);
  const Status read = file.read();
  if (!read.ok() && read.error().code == Code::kNotFound) {
    if (Status made = file.rotate(now); !made.ok()) return made.error();
    return file;
  }
  if (!read.ok()) return read.error();
  RecordKeys needed = needed_keys(file.keys_, snapshot);
  if (needed.size() == file.keys_.size()) return file;
  if (Status written = file.write(needed); !written.ok()) return written.error();
  return file;
}

Status RecordKeyFile::read() {
  const auto text = identity::read_private_file(path_);
  if (!text) return text.error();
  const Json content = Json::parse(*text, nullptr, false);
  const Error bad{Code::kInvalidArgument, path_ + " is not a file of record keys", path_,
                  "put it back from a backup, or remove it: then no job can be continued from what "
                  "its agents hold when an older backup is restored"};
  if (!content.is_object() || !content.contains("keys") || !content["keys"].is_array()) return bad;
  for (const Json& entry : content["keys"]) {
    auto key = key_of(entry);
    const bool follows =
        key && (keys_.empty() || number_of_key(keys_.back().id) < number_of_key(key->id));
    if (!follows) return bad;
    keys_.push_back(std::move(*key));
  }
  return keys_.empty() ? Status(bad) : Status();
}

Status RecordKeyFile::write(const RecordKeys& keys) {
  Json content;
  for (const RecordKey& key : keys) {
    content["keys"].push_back(
        {{"id", key.id}, {"made_at_ns", key.made_at.ns}, {"secret", key.secret}});
  }
  if (Status written = identity::write_private_file(path_, content.dump(1) + "\n"); !written.ok()) {
    return written;
  }
  keys_ = keys;
  return {};
}

Status RecordKeyFile::rotate(Instant now) {
  RecordKeys next = keys_;
  const std::int64_t number = next.empty() ? 1 : number_of_key(next.back().id) + 1;
  next.push_back({cluster_ + "/" + std::to_string(number), identity::make_secret(), now});
  return write(next);
}

RecordKeys needed_keys(RecordKeys keys, const Snapshot& snapshot) {
  if (keys.size() < 2) return keys;
  std::map<JobId, const JobRecord*> jobs;
  for (const JobRecord& job : snapshot.jobs) jobs[job.id] = &job;
  const RecordKey& newest = keys.back();
  for (const ReplicaRecord& replica : snapshot.replicas) {
    const auto job = jobs.find(replica.job);
    if (job == jobs.end() || has_ended(replica.state) || replica.created_at > newest.made_at) {
      continue;
    }
    const bool renewed = replica.held_round == job->second->committed_round &&
                         job->second->committed_at > newest.made_at;
    if (!renewed) return keys;
  }
  keys.erase(keys.begin(), keys.end() - 1);
  return keys;
}

}  // namespace shoal::coordinator
