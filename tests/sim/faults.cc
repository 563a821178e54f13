// The names of the faults and of the moments they may follow: see faults.h.
#include "tests/sim/faults.h"

#include <cstddef>
#include <iterator>

namespace shoal::sim {

namespace {

// In the order of the enum.
constexpr const char* kFaultWords[] = {
    "stream_loss",        "message_delay",     "reorder",
    "duplicate",          "agent_crash",       "agent_disk_lost",
    "trainer_crash",      "coordinator_crash", "crash_between_effects",
    "agent_pause",        "trainer_pause",     "partition_coordinator",
    "partition_one_way",  "partition_peers",   "peer_stream_loss",
    "slow_agent",         "slow_link",         "slow_disk",
    "non_finite",         "upload_failure",    "user_cancel",
    "agent_drain",        "replica_error",     "operator_cordon",
    "operator_drain",     "memory_lie",        "operator_pause",
    "coordinator_pause",  "all_agents_out",    "host_frozen",
    "peer_one_way",       "clock_jump",        "twin_agent",
    "torn_write",         "failed_fsync",      "full_disk",
    "flipped_frame",      "flipped_memory",    "flipped_transfer",
    "flipped_checkpoint", "slow_load",         "restore_under_agents",
    "restore_alone",      "other_data",        "agent_restart"};
static_assert(std::size(kFaultWords) == static_cast<std::size_t>(Fault::kAgentRestart) + 1);

}  // namespace

const char* to_string(Fault fault) { return kFaultWords[static_cast<std::size_t>(fault)]; }

const char* to_string(Moment moment) {
  switch (moment) {
    case Moment::kSenderBegins:
      return "sender_begins";
    case Moment::kReduceBegins:
      return "reduce_begins";
    case Moment::kReported:
      return "reported";
    case Moment::kAveraged:
      return "averaged";
    case Moment::kHolds:
      return "holds";
    case Moment::kEagerlyBegun:
      return "eagerly_begun";
    case Moment::kJobMoved:
      return "job_moved";
    case Moment::kRoundMoved:
      return "round_moved";
    case Moment::kCheckpointMoved:
      return "checkpoint_moved";
  }
  return "unknown";
}

}  // namespace shoal::sim
