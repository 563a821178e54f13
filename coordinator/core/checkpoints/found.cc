#include "coordinator/core/checkpoints/found.h"

#include <algorithm>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/core/records/event_kinds.h"

namespace shoal::coordinator {
namespace {

// Its parts are those of the stages that the job has.
bool fits(const JobRecord* job, const CheckpointRecord& checkpoint) {
  if (job == nullptr) return false;
  const std::size_t stages = job->stages.size();
  const bool whole = stages == 0 && job->spec.swarm.stages == 1;
  return checkpoint.parts.size() == (whole ? 1 : stages);
}

void count_again(Turn& turn, const CheckpointRecord& found) {
  turn.add(found).state = CheckpointState::kStored;
  if (!turn.state().jobs.at(found.key.job).stages.empty()) return;
  JobRecord& job = turn.job(found.key.job);
  job.stages.push_back({.units = whole_model(job.spec).front(), .anchor = {}, .momentum = {}});
}

void take_over(Turn& turn, const CheckpointRecord& found) {
  const bool counted = found.id.n < turn.state().counters.next_checkpoint;
  if (!counted) turn.counters().next_checkpoint = found.id.n + 1;
  const std::string what = to_string(found.id) + " of round " + std::to_string(found.key.round) +
                           " was stored after the backup that the database is; ";
  const bool good = fits(turn.state().jobs.find(found.key.job), found);
  if (good) count_again(turn, found);
  turn.event(Severity::kWarning, event_kind::kCheckpointStored,
             {.job = found.key.job, .round = found.key.round},
             what + (good ? "its files are whole, and it counts again"
                          : "its files are kept, the database does not know its job"));
}

}  // namespace

bool take_over_found(Turn& turn, const std::vector<CheckpointRecord>& found) {
  bool any = false;
  for (const CheckpointRecord& checkpoint : found) {
    const CheckpointRecord* known = turn.state().checkpoints.find(checkpoint.id);
    if (known != nullptr && known->state == CheckpointState::kStored) continue;
    take_over(turn, checkpoint);
    any = true;
  }
  return any;
}

}  // namespace shoal::coordinator
