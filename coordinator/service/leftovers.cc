#include "coordinator/service/leftovers.h"

#include <algorithm>

#include <spdlog/spdlog.h>

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

// Nothing: they are not whole.
std::optional<CheckpointRecord> whole(const CheckpointFiles& files, CheckpointId id) {
  Result<CheckpointRecord> manifest = files.manifest(id);
  if (manifest && manifest->id != id) manifest = Error{Code::kDataLoss, "of another checkpoint"};
  const Status checked =
      manifest ? files.verify(id, all_files(*manifest)) : Status(manifest.error());
  if (checked.ok()) return *manifest;
  spdlog::warn("{} is unknown to the database and stays aside: {}", files.folder(id),
               to_string(checked.error()));
  return std::nullopt;
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
    if (auto found = whole(files, id)) left.found.push_back(std::move(*found));
  }
  return left;
}

}  // namespace shoal::coordinator
