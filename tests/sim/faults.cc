// The names of the faults and of the moments they may follow: see faults.h.
#include "tests/sim/faults.h"

namespace shoal::sim {

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::kStreamLoss:
      return "stream_loss";
    case Fault::kMessageDelay:
      return "message_delay";
    case Fault::kReorder:
      return "reorder";
    case Fault::kDuplicate:
      return "duplicate";
    case Fault::kAgentCrash:
      return "agent_crash";
    case Fault::kAgentDiskLost:
      return "agent_disk_lost";
    case Fault::kTrainerCrash:
      return "trainer_crash";
    case Fault::kCoordinatorCrash:
      return "coordinator_crash";
    case Fault::kCrashBetweenEffects:
      return "crash_between_effects";
    case Fault::kAgentPause:
      return "agent_pause";
    case Fault::kTrainerPause:
      return "trainer_pause";
    case Fault::kPartitionCoordinator:
      return "partition_coordinator";
    case Fault::kPartitionOneWay:
      return "partition_one_way";
    case Fault::kPartitionPeers:
      return "partition_peers";
    case Fault::kPeerStreamLoss:
      return "peer_stream_loss";
    case Fault::kSlowAgent:
      return "slow_agent";
    case Fault::kSlowLink:
      return "slow_link";
    case Fault::kSlowDisk:
      return "slow_disk";
    case Fault::kNonFinite:
      return "non_finite";
    case Fault::kUploadFailure:
      return "upload_failure";
    case Fault::kUserCancel:
      return "user_cancel";
    case Fault::kAgentDrain:
      return "agent_drain";
    case Fault::kReplicaError:
      return "replica_error";
    case Fault::kOperatorCordon:
      return "operator_cordon";
    case Fault::kOperatorDrain:
      return "operator_drain";
    case Fault::kMemoryLie:
      return "memory_lie";
    case Fault::kOperatorPause:
      return "operator_pause";
  }
  return "unknown";
}

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
