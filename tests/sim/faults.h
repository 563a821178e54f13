// Everything that can go wrong in a simulated cluster, as a closed list. A fault is counted when it
// really happened (a delay that was drawn long, a stream that was open when it broke), not when it
// was planned: a campaign in which one of them never happened fails.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/enumerators.h"
#include "base/time.h"

namespace shoal::sim {

using shoal::to_string;

enum class Fault {
  kStreamLoss,     // a coordinator stream breaks, what was in flight is lost
  kMessageDelay,   // a message takes the long tail of the delay
  kReorder,        // a message overtakes an older one of another stream
  kDuplicate,      // a message is delivered twice, also after a reconnect
  kAgentCrash,     // with its trainers, and it comes back with its disk
  kAgentDiskLost,  // and it comes back as somebody new
  kTrainerCrash,
  kCoordinatorCrash,     // at any moment
  kCrashBetweenEffects,  // the coordinator dies between two effects of one step
  kAgentPause,           // SIGSTOP, later SIGCONT, with its old state
  kTrainerPause,
  kPartitionCoordinator,  // an agent and the coordinator, both ways
  kPartitionOneWay,       // only one direction is lost
  kPartitionPeers,        // two hosts cannot exchange frames
  kPeerStreamLoss,        // streams between two trainers break
  kSlowAgent,             // inner steps take several times as long
  kSlowLink,              // frames between two hosts take several times as long
  kSlowDisk,              // the coordinator's writes take seconds
  kNonFinite,             // a replica reports a pseudo-gradient with non-finite values
  kUploadFailure,         // the files of a checkpoint do not arrive
  kUserCancel,
  kAgentDrain,    // SIGTERM: it leaves in order, and comes back later
  kReplicaError,  // a trainer gives up its replica (out of memory, …) and lives on
                  // The operator takes an agent out of service, and puts it back later.
  kOperatorCordon,
  kOperatorDrain,
  // A device has less memory than its agent said: a replica runs out, and any as large later.
  kMemoryLie,
  kOperatorPause,     // a job, which continues later
  kCoordinatorPause,  // SIGSTOP, later SIGCONT: it takes no step, its streams stay open for a while
  kAllAgentsOut,      // the lines of all agents to the coordinator are cut at once
  kHostFrozen,        // a whole host stops and does not continue by itself
  kPeerOneWay,        // one host's frames do not reach another, the way back is sound
  kClockJump,         // the coordinator's host is started with another time of day
  kTwinAgent,         // a copy of an agent's data folder is started beside it
  kTornWrite,         // the coordinator's host dies while a batch is being written
  kFailedFsync,       // a commit of the coordinator's store fails; it may be on disk or not
  kFullDisk,          // the coordinator's store can write nothing for a while
  kFlippedFrame,      // a bit of a frame between trainers changes on its way
  kFlippedMemory,     // a bit of an anchor, of outer momentum or of an average in memory
  kFlippedTransfer,   // a bit of the state that a joiner is sent
  kFlippedCheckpoint,   // a bit of a checkpoint's file: on the way, or where it is stored
  kSlowLoad,            // a host's line is so slow that a load takes longer than rounds
  kRestoreUnderAgents,  // the coordinator starts with a backup while its agents work
  kRestoreAlone,        // likewise, and no agent lives that knows better
  kOtherData,           // a host's data file is another one than that of the others
  kAgentRestart,        // the agent dies alone: its trainers live, and the next one finds them
  kFalseNorm,           // for a round a replica sends -10 times the pseudo-gradient it reported
  kFalseAverage,        // for a round it averages its part with other clip factors than the plan's
  kSlowGroup,           // the line of a member of a group goes slow in the middle of a reduce
  kFalseClaim,          // an agent returns with a round that was never committed
  kShortPart,           // a writer reports its part of a checkpoint without one of the files
  kStageLost,        // all hosts that serve one stage of a pipeline die at once, with their disks
  kBadCard,          // every replica on one device fails, until the faults end
  kSickCard,         // the driver of one device reports a fatal XID while its replica trains
  kThrottledDevice,  // a device computes at 5 to 50 % of its speed for a while
};
constexpr auto enumerators_of(Of<Fault>) {
  using enum Fault;
  return enumerators<Fault>({{kStreamLoss, "stream_loss"},
                             {kMessageDelay, "message_delay"},
                             {kReorder, "reorder"},
                             {kDuplicate, "duplicate"},
                             {kAgentCrash, "agent_crash"},
                             {kAgentDiskLost, "agent_disk_lost"},
                             {kTrainerCrash, "trainer_crash"},
                             {kCoordinatorCrash, "coordinator_crash"},
                             {kCrashBetweenEffects, "crash_between_effects"},
                             {kAgentPause, "agent_pause"},
                             {kTrainerPause, "trainer_pause"},
                             {kPartitionCoordinator, "partition_coordinator"},
                             {kPartitionOneWay, "partition_one_way"},
                             {kPartitionPeers, "partition_peers"},
                             {kPeerStreamLoss, "peer_stream_loss"},
                             {kSlowAgent, "slow_agent"},
                             {kSlowLink, "slow_link"},
                             {kSlowDisk, "slow_disk"},
                             {kNonFinite, "non_finite"},
                             {kUploadFailure, "upload_failure"},
                             {kUserCancel, "user_cancel"},
                             {kAgentDrain, "agent_drain"},
                             {kReplicaError, "replica_error"},
                             {kOperatorCordon, "operator_cordon"},
                             {kOperatorDrain, "operator_drain"},
                             {kMemoryLie, "memory_lie"},
                             {kOperatorPause, "operator_pause"},
                             {kCoordinatorPause, "coordinator_pause"},
                             {kAllAgentsOut, "all_agents_out"},
                             {kHostFrozen, "host_frozen"},
                             {kPeerOneWay, "peer_one_way"},
                             {kClockJump, "clock_jump"},
                             {kTwinAgent, "twin_agent"},
                             {kTornWrite, "torn_write"},
                             {kFailedFsync, "failed_fsync"},
                             {kFullDisk, "full_disk"},
                             {kFlippedFrame, "flipped_frame"},
                             {kFlippedMemory, "flipped_memory"},
                             {kFlippedTransfer, "flipped_transfer"},
                             {kFlippedCheckpoint, "flipped_checkpoint"},
                             {kSlowLoad, "slow_load"},
                             {kRestoreUnderAgents, "restore_under_agents"},
                             {kRestoreAlone, "restore_alone"},
                             {kOtherData, "other_data"},
                             {kAgentRestart, "agent_restart"},
                             {kFalseNorm, "false_norm"},
                             {kFalseAverage, "false_average"},
                             {kSlowGroup, "slow_group"},
                             {kFalseClaim, "false_claim"},
                             {kShortPart, "short_part"},
                             {kStageLost, "stage_lost"},
                             {kBadCard, "bad_card"},
                             {kSickCard, "sick_card"},
                             {kThrottledDevice, "throttled_device"}});
}

inline constexpr std::size_t kFaults = enumerator_count<Fault>();

// What a fault may follow: rare paths begin where something happens to a replica, a job, a round or
// a checkpoint at the wrong moment.
enum class Moment {
  kSenderBegins,  // a replica that owns no part enters a reduce with something to give
  kReduceBegins,  // a replica enters a reduce
  kReported,      // it reported a boundary
  kAveraged,      // it has an average and is about to vote
  kHolds,         // it holds the state of a round that it loaded, or took an outer step
  kEagerlyBegun,  // it continues from an estimate
  kJobMoved,      // a phase of a job is durable
  kRoundMoved,    // a state of a round is durable
  kCheckpointMoved,
};
constexpr auto enumerators_of(Of<Moment>) {
  using enum Moment;
  return enumerators<Moment>({{kSenderBegins, "sender_begins"},
                              {kReduceBegins, "reduce_begins"},
                              {kReported, "reported"},
                              {kAveraged, "averaged"},
                              {kHolds, "holds"},
                              {kEagerlyBegun, "eagerly_begun"},
                              {kJobMoved, "job_moved"},
                              {kRoundMoved, "round_moved"},
                              {kCheckpointMoved, "checkpoint_moved"}});
}

inline constexpr std::size_t kMoments = enumerator_count<Moment>();

// A fault that follows a moment: at the replica that it is about, else at any.
struct Ambush {
  Moment moment = Moment::kReduceBegins;
  Fault fault = Fault::kTrainerCrash;
  double probability = 0;
  Duration within;  // of the moment
};

class FaultCounts {
 public:
  void count(Fault fault) { ++counts_[static_cast<std::size_t>(fault)]; }
  std::int64_t of(Fault fault) const { return counts_[static_cast<std::size_t>(fault)]; }
  void add(const FaultCounts& other) {
    for (std::size_t i = 0; i < kFaults; ++i) counts_[i] += other.counts_[i];
  }

 private:
  std::array<std::int64_t, kFaults> counts_{};
};

}  // namespace shoal::sim
