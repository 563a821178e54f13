// Planted bugs: mistakes that a driver, a trainer or a core could make, switched on by name in the
// simulator. They are the measure of the checkers: each must be caught by the checker named beside
// it. None of them lives in product code; the simulator's drivers and trainers misbehave on
// purpose.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tests/sim/faults.h"

namespace shoal::sim {

enum class Bug {
  kNone,
  kDropPersist,         // now and then a record is not written
  kSendBeforePersist,   // the driver does not wait for the store
  kLostFsync,           // a crash takes batches with it that were called durable
  kCorruptAverage,      // one member's average changes after its vote
  kSkipMomentum,        // one replica forgets the momentum in the outer step
  kStaleBase,           // a replica contributes what it kept from the round before
  kForgedVote,          // a failed member is counted as one that agreed
  kMinReplicasIgnored,  // the core is told that one replica is enough
  kDoubleCount,         // a report counts its tokens twice
  kLeaseTwice,          // a replica is told to train the sequences of the round before
  kOverlappingLease,    // a replica is told to train the sequences of another one of its round
  kStaleSource,         // a joiner gets an older state and does not compare digests
  kReleaseIgnored,      // a trainer keeps a replica that was released
  kDeafCoordinator,     // the core hears nothing more once a job has lost a replica it needs
  kLostReports,         // reports never reach the core
  kLostCommits,         // commits never reach the trainers
  kWrongAverage,        // every member forgets the last contribution, all agree on the result
  kTwoOnDevice,         // the core records every replica on device 0
  kOneStageAgrees,      // a vote in one stage counts for the members of the others
  kMixedCheckpoint,     // the last part of a checkpoint is of an earlier round
  kAddsAgain,           // a device adds a gradient that it shall only answer
  kLostViews,           // now and then a view is not sent
  kSameView,            // every view has the number 1
  kForgottenCordon,     // the core is never told of a cordon
  kHastyDrain,          // a drained agent lets go in the middle of a round
  kForgottenReducer,    // plans do not say who only averages
  kEagerFeedback,       // what was not sent is settled at the vote, not at the commit
  kLeakyFragment,       // the outer step of one fragment changes the momentum of all
  kEarlyAdoption,       // a result becomes local as soon as it is there
  kUncorrected,         // a result is adopted and the eager step before it not corrected
  kOwnTwice,            // a replica counts its own part in its estimates twice
  kForgetfulAbort,      // an eager replica goes back to the anchor when its round is aborted
  kTailTwice,           // the steps behind a boundary count with both rounds
  kSilentOwners,        // votes do not say whom they excluded
  kForgottenAnchor,     // members of a group exchange pseudo-gradients without their anchors
  kForgottenProgress,   // a member whose group gave up starts from its anchor
  kForgottenMomentum,   // a range of sharded momentum is fetched and not kept
  kForgivenMemory,      // a device that ran out of memory is taken for sound at once
  kDroppedProgress,     // a commit takes what a late replica trained
  kMissedRenewal,       // one replica does not renew its outer momentum
  kPriorityIgnored,     // the core is told that all jobs have the same priority
  kForgottenRelease,    // the records keep replicas of a job that pauses
  kForgottenStep,       // a job that continues has forgotten its last inner step
  kTakenForWhole,       // a batch of which only a part reached the disk is taken for whole
  kIgnoredFsync,        // the driver continues after a write that failed
  kBuriedAlive,         // all replicas of a job are taken for dead while they train
  kStaleMomentum,       // the records keep naming the momentum of the round before
  kAssumedUpload,       // an upload that failed is taken for done
  kHarshOutliers,       // an outlier is a norm slightly above the median
  kSliceTwice,          // an evaluation counts for its slice and for the next one
  kUnreadDigest,        // the core does not look at the digests of data files
  kSleepingCore,        // the core hears nothing more once a round is over
  kForgottenTrainers,   // an agent that starts does not say whom it has found
  kForgottenRun,        // the records lose a run of what was returned
  kUnmarkedBackup,      // a backup does not say that it is one
  kForgottenFolder,     // the core is not told which checkpoints lie on disk
  kUnreadSums,          // the core does not look at the sums that owners vote with
  kBlamesAnother,       // a joiner names another source than the one that gave it wrong bytes
  kUnreadAudits,        // the core does not look at what audits dispute
  kUnreadCopies,        // the core does not hear what copies hold
  kUnreadProofs,        // the core does not look at the signatures of records
  kUnreadList,          // the core does not look at which files a part has
  kGreedyBudget,        // the newest checkpoint of a job that trains is deleted
  kForgivenCards,       // the cordon of a device ends as soon as it begins
  kTurnedLines,         // the core takes the two directions of a line for each other
  kRestlessMove,        // a replica that has just moved moves on before it serves
  kReturningMove,       // a replica that has moved goes back once it serves
  kForgivenSickCards,   // likewise, of one whose driver reported a fault
  kAncientLines,        // measurements of lines count whatever their age
  kRenewedLines,        // an old rate is measured anew when its peer was only reached
};

struct PlantedBug {
  Bug bug;
  std::string_view name;
  std::string_view checker;  // that must catch it
  std::string_view what;
  std::optional<Fault> needs = std::nullopt;  // shows only with this fault, not endured yet
};

const std::vector<PlantedBug>& planted_bugs();
const PlantedBug* find_bug(std::string_view name);

}  // namespace shoal::sim
