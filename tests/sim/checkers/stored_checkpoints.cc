// A stored checkpoint can be loaded: the service has all files of every stage, they are of the
// round of the record, and anchor and momentum in them have the digests of the record.
#include <algorithm>
#include <map>
#include <utility>

#include "tests/sim/checkers/checkers.h"

namespace shoal::sim {
namespace {

using coordinator::CheckpointRecord;
using coordinator::CheckpointState;

class StoredCheckpoints final : public Checker {
 public:
  using Checker::Checker;
  const char* name() const override { return "stored_checkpoints"; }

  void files_stored(const FilesStored& f) override {
    files_[{f.checkpoint, f.stage}] = {f.key, f.digests.anchor, f.digests.momentum, f.files};
  }

  void durable(const Record& record, const Tables& tables) override {
    const auto* checkpoint = std::get_if<CheckpointRecord>(&record);
    if (checkpoint == nullptr || checkpoint->state != CheckpointState::kStored) return;
    const auto job = tables.jobs.find(checkpoint->key.job);
    for (std::size_t stage = 0; stage < checkpoint->parts.size(); ++stage) {
      check(*checkpoint, static_cast<StageIndex>(stage));
      if (job != tables.jobs.end())
        check_set(*checkpoint, static_cast<StageIndex>(stage), job->second.spec);
    }
  }

 private:
  struct Files {
    RoundKey key;
    Digest anchor, momentum;
    std::vector<FileEntry> files;
  };

  void check_set(const CheckpointRecord& checkpoint, StageIndex stage, const JobSpec& spec) {
    const auto stored = files_.find({checkpoint.id, stage});
    if (stored == files_.end()) return;
    std::vector<std::string> roles{"part", "weights"};
    for (const std::string_view vector : outer_vectors(spec.sync)) {
      roles.push_back("outer/" + std::string(vector));
    }
    for (const std::string& role : roles) {
      if (std::ranges::count(stored->second.files, role, &FileEntry::role) == 0)
        violated(to_string(checkpoint.id) + " is stored without its file of the role " + role);
    }
  }

  // What a bad memory wrote was found by nobody before it was written.
  void check(const CheckpointRecord& checkpoint, StageIndex stage) {
    const auto& part = checkpoint.parts[static_cast<std::size_t>(stage)];
    const std::string what = to_string(checkpoint.id) + " stage " + std::to_string(stage);
    const auto files = files_.find({checkpoint.id, stage});
    if (files == files_.end()) return violated(what + " is stored without its files");
    if (is_tainted(part.writer)) return;
    const Files& f = files->second;
    if (f.key != checkpoint.key) return violated(what + " is of " + to_text(f.key));
    if (f.anchor != part.anchor) return violated(what + " reloads to another anchor");
    if (part.momentum && f.momentum != part.momentum)
      violated(what + " reloads to another momentum");
  }

  std::map<std::pair<CheckpointId, StageIndex>, Files> files_;
};

}  // namespace

std::unique_ptr<Checker> make_stored_checkpoints(const Checker::Context& context) {
  return std::make_unique<StoredCheckpoints>(context);
}

}  // namespace shoal::sim
