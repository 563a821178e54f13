// The moves and the list of those that must happen: see transitions.h.
#include "tests/sim/transitions.h"

#include <algorithm>
#include <string_view>

#include "coordinator/core/records/event_kinds.h"

namespace shoal::sim {

using namespace coordinator;

void count_checkpoint_move(const Record& record, const Tables& before, TransitionCounts& counts) {
  const auto* checkpoint = std::get_if<CheckpointRecord>(&record);
  if (checkpoint == nullptr) return;
  const auto it = before.checkpoints.find(checkpoint->id);
  const std::string from = it == before.checkpoints.end() ? "new" : to_string(it->second.state);
  if (from != to_string(checkpoint->state)) {
    ++counts["checkpoint " + from + " " + to_string(checkpoint->state)];
  }
}

void count_rejection(const Record& record, const Tables& before, TransitionCounts& counts) {
  const auto* contribution = std::get_if<ContributionRecord>(&record);
  if (contribution == nullptr || contribution->reject_reason == RejectReason::kNone) return;
  const auto it = before.contributions.find({contribution->key, contribution->replica});
  const bool known =
      it != before.contributions.end() && it->second.reject_reason == contribution->reject_reason;
  if (!known) ++counts[std::string("contribution ") + to_string(contribution->reject_reason)];
}

namespace {

// Events that are information.
constexpr const char* kAlsoCounted[] = {event_kind::kMoveRefused, event_kind::kPipelineRecut,
                                        event_kind::kReplicaMoved, event_kind::kReplicaAsPromised};

}  // namespace

void count_event(const Record& record, TransitionCounts& counts) {
  const auto* event = std::get_if<EventRecord>(&record);
  if (event == nullptr) return;
  const bool is_counted =
      event->severity != Severity::kInfo ||
      std::ranges::any_of(kAlsoCounted, [&](std::string_view kind) { return kind == event->kind; });
  if (is_counted) ++counts["event " + event->kind];
}

namespace {

constexpr const char* kExpected[] = {
    "agent active draining",
    "agent active idle",
    "agent active syncing",
    "agent draining gone",
    "agent draining idle",
    "agent draining joining",
    "agent gone joining",
    "agent idle gone",
    "agent idle joining",
    "agent idle syncing",
    "agent joining idle",
    "agent syncing active",
    "agent syncing idle",
    "agent's daemon draining finish",
    "agent's daemon running stop",
    "agent's link active lost",
    "agent's link greeting lost",
    "agent's link greeting welcome",
    "agent's link opening lost",
    "agent's link opening up",
    "agent's replica loading end",
    "agent's replica loading loaded",
    "agent's replica serving end",
    "agent's replica waiting load",
    "agent's trainer ready exited",
    "agent's trainer ready stop",
    "agent's trainer starting attached",
    "agent's trainer starting exited",
    "agent's trainer stopping exited",
    "ambush averaged",
    "ambush checkpoint_moved",
    "ambush holds",
    "ambush job_moved",
    "ambush reduce_begins",
    "ambush reported",
    "ambush round_moved",
    "ambush sender_begins",
    "block asked failed",
    "block asked late",
    "block asked lost",
    "block asked measured",
    "checkpoint new writing",
    "checkpoint stored deleted",
    "checkpoint uploading failed",
    "checkpoint uploading stored",
    "checkpoint writing failed",
    "checkpoint writing uploading",
    "contribution excluded",
    "eager step corrected",
    "eager step taken back",
    "eager step taken",
    "eager step unknown",
    "event checkpoints_over_budget",
    "event device_failing",
    "event device_unhealthy",
    "event job_preempted",
    "event move_refused",
    "event pipeline_recut",
    "event replica_absent",
    "event replica_moved",
    "event replica_slow",
    "job finalizing completed",
    "job finalizing paused",
    "job finalizing training",
    "job gathering paused",
    "job gathering warming",
    "job paused queued",
    "job queued gathering",
    "job stalled training",
    "job training cancelled",
    "job training finalizing",
    "job training paused",
    "job training stalled",
    "job warming gathering",
    "job warming training",
    "line asked late",
    "line asked lost",
    "line asked measured",
    "line asked silent",
    "momentum fetch done",
    "move for balance",
    "outer step adam",
    "outer step nesterov",
    "outer step sgd",
    "reduce allgather broken",
    "reduce allgather done",
    "reduce butterfly broken",
    "reduce butterfly done",
    "reduce centered_clip broken",
    "reduce centered_clip done",
    "reduce member excluded",
    "reduce param_server broken",
    "reduce param_server done",
    "reduce reducer broken",
    "reduce reducer done",
    "reduce ring broken",
    "reduce ring done",
    "reduce trimmed_mean broken",
    "reduce trimmed_mean done",
    "release draining",
    "release paused",
    "replica absent failed",
    "replica absent serving",
    "replica assigned loading",
    "replica averaging absent",
    "replica averaging failed",
    "replica averaging serving",
    "replica loading failed",
    "replica loading released",
    "replica loading serving",
    "replica serving absent",
    "replica serving averaging",
    "replica serving failed",
    "replica serving released",
    "round aborted open",
    "round frozen reducing",
    "round open frozen",
    "round reducing aborted",
    "round reducing frozen",
    "round reducing voting",
    "round voting committed",
    "round voting frozen",
};

}  // namespace

const std::vector<std::string>& expected_transitions() {
  static const std::vector<std::string> all(std::begin(kExpected), std::end(kExpected));
  return all;
}

}  // namespace shoal::sim
