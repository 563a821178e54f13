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

// As its manifest says, or `failed` with the cause in its detail: then it is not whole. A shelf
// that does not answer says neither.
Result<CheckpointRecord> found_in(const CheckpointShelf& shelf, CheckpointId id) {
  Result<CheckpointRecord> manifest = shelf.manifest(id);
  if (manifest && manifest->id != id) {
    manifest = Error{Code::kDataLoss, "it is of another checkpoint",
                     shelf.place(id) + "/" + kManifestFile};
  }
  const Status checked =
      manifest ? shelf.verify(id, all_files(*manifest)) : Status(manifest.error());
  if (checked.ok()) return *manifest;
  if (shelf.is_silence(checked.error())) return checked.error();
  CheckpointRecord damaged;
  damaged.id = id;
  damaged.state = CheckpointState::kFailed;
  damaged.detail = to_string(checked.error());
  return damaged;
}

}  // namespace

Result<Leftovers> look_through(const CheckpointShelf& shelf, Store& store) {
  const auto listed = shelf.list();
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
    if (pending && !shelf.manifest(id)) continue;  // this process is about to store it
    auto found = found_in(shelf, id);
    if (!found) return found.error();
    if (found->state == CheckpointState::kStored || !pending)
      left.found.push_back(std::move(found).value());
  }
  return left;
}

}  // namespace shoal::coordinator
