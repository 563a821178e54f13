#include "coordinator/service/leftovers.h"

#include <algorithm>

#include "coordinator/store/manifest.h"
#include "coordinator/store/reader.h"

namespace shoal::coordinator {
namespace {

bool is_pending(CheckpointState state) {
  return state == CheckpointState::kWriting || state == CheckpointState::kUploading;
}

// It was stored, and set aside as its files could not be loaded: somebody may want to look at them.
bool was_set_aside(const CheckpointRecord& checkpoint) {
  return checkpoint.state == CheckpointState::kFailed &&
         std::ranges::all_of(checkpoint.parts, [](const CheckpointPart& part) {
           return part.state == CheckpointState::kStored;
         });
}

// As its manifest says, or `failed` with the cause in its detail: then it is not whole.
CheckpointRecord found_in(const CheckpointFiles& files, CheckpointId id) {
  Result<CheckpointRecord> manifest = files.manifest(id);
  if (manifest && manifest->id != id) {
    manifest = Error{Code::kDataLoss, "it is of another checkpoint",
                     files.folder(id) + "/" + kManifestFile};
  }
  const Status checked =
      manifest ? files.verify(id, all_files(*manifest)) : Status(manifest.error());
  if (checked.ok()) return *manifest;
  CheckpointRecord damaged;
  damaged.id = id;
  damaged.state = CheckpointState::kFailed;
  damaged.detail = to_string(checked.error());
  return damaged;
}

}  // namespace

Result<Leftovers> look_through(const CheckpointFiles& files, Store& store) {
  const auto listed = files.list();
  if (!listed) return listed.error();
  const std::unique_ptr<Reader> reader = store.reader();
  Leftovers left;
  for (const auto& [id, complete] : *listed) {
    const auto row = reader->checkpoint(id);
    if (!row) return row.error();
    const CheckpointRecord* known = row->has_value() ? &**row : nullptr;
    const bool pending = known != nullptr && is_pending(known->state);
    const bool lives = pending || (known != nullptr && known->state == CheckpointState::kStored);
    if (lives || (known != nullptr && was_set_aside(*known))) left.keep.insert(id);
    if (!complete || (known != nullptr && !pending)) continue;
    if (known == nullptr) left.keep.insert(id);
    if (pending && !files.manifest(id)) continue;  // this process is about to store it
    CheckpointRecord found = found_in(files, id);
    if (found.state == CheckpointState::kStored || !pending) left.found.push_back(std::move(found));
  }
  return left;
}

}  // namespace shoal::coordinator
