#include "coordinator/core/object_access.h"

#include <algorithm>

#include "job/data_rules.h"
#include "job/references.h"

namespace shoal::coordinator {
namespace {

// The owner of a checkpoint whose job is unknown is nobody: only Reach::kAny covers it.
std::vector<std::string> owners_of(const State& state, const CheckpointRecord& checkpoint) {
  const JobRecord* job = state.jobs.find(checkpoint.key.job);
  return job == nullptr ? std::vector<std::string>() : std::vector{job->owner};
}

const CheckpointRecord* find_stored(const State& state, const std::string& text) {
  const auto id = checkpoint_of_weights(text);
  const CheckpointRecord* checkpoint = id ? state.checkpoints.find(*id) : nullptr;
  const bool stored = checkpoint != nullptr && checkpoint->state == CheckpointState::kStored;
  return stored ? checkpoint : nullptr;
}

// The checkpoints that the job reads. One that continues another job has the model.init of that
// job, but does not read it.
std::vector<NamedObject> named_checkpoints(const JobSpec& spec) {
  auto objects = objects_of(spec);
  std::erase_if(objects, [&](const NamedObject& object) {
    const bool is_unread = object.pointer == "/model/init" && !spec.train.continue_from.empty();
    return object.kind != Reference::kCheckpoint || is_unread;
  });
  return objects;
}

bool may_one_use(const State& state, std::span<const ObjectUser> users,
                 const CheckpointRecord& checkpoint) {
  const auto owners = owners_of(state, checkpoint);
  return std::ranges::any_of(users, [&](const ObjectUser& user) {
    return may_use(user, ObjectKind::kCheckpoint, owners);
  });
}

}  // namespace

std::vector<FieldError> refused_checkpoints(const State& state, std::span<const ObjectUser> users,
                                            const JobSpec& spec) {
  std::vector<FieldError> refused;
  for (const NamedObject& object : named_checkpoints(spec)) {
    const CheckpointRecord* checkpoint = find_stored(state, object.text);
    if (checkpoint != nullptr && may_one_use(state, users, *checkpoint)) continue;
    refused.push_back({object.pointer,
                       "must name a stored checkpoint that you may download, as `shoal checkpoint "
                       "ls` lists them, got '" +
                           object.text + "'"});
  }
  return refused;
}

std::string forbidden_checkpoints(const State& state, std::span<const ObjectUser> users,
                                  const JobSpec& spec) {
  std::string forbidden;
  for (const NamedObject& object : named_checkpoints(spec)) {
    const CheckpointRecord* checkpoint = find_stored(state, object.text);
    if (checkpoint == nullptr || may_one_use(state, users, *checkpoint)) continue;
    const auto owners = owners_of(state, *checkpoint);
    forbidden += (forbidden.empty() ? "" : ", ") + object.text + " of " +
                 (owners.empty() || owners.front().empty() ? "nobody" : owners.front());
  }
  return forbidden;
}

}  // namespace shoal::coordinator
