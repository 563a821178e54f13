// The registry of planted bugs: see bugs.h.
#include "tests/negative/bugs.h"

#include <iterator>

namespace shoal::sim {
namespace {

constexpr PlantedBug kBugs[] = {
    {Bug::kDropPersist, "drop_persist", "replay", "now and then a record is not written"},
    {Bug::kSendBeforePersist, "send_before_persist", "persist_before_send",
     "the driver sends without waiting for the store"},
    {Bug::kLostFsync, "lost_fsync", "round_order",
     "a crash takes batches with it that were called durable"},
    {Bug::kTakenForWhole, "taken_for_whole", "persist_before_send",
     "a batch of which a part was written is taken for whole at the next start"},
    {Bug::kIgnoredFsync, "ignored_fsync", "replay", "the driver continues after a failed write"},
    {Bug::kCorruptAverage, "corrupt_average", "identical_replicas",
     "one member's average changes after its vote"},
    {Bug::kSkipMomentum, "skip_momentum", "recomputation",
     "one replica forgets the momentum in the outer step"},
    {Bug::kWrongAverage, "wrong_average", "recomputation",
     "all members agree on an average that leaves out the last contribution"},
    {Bug::kStaleBase, "stale_base", "base_is_held",
     "a replica contributes what it kept from the round before"},
    {Bug::kForgedVote, "forged_vote", "equal_votes",
     "a member that failed is counted as one that agreed"},
    {Bug::kMinReplicasIgnored, "min_replicas_ignored", "quorum",
     "the core is told that one replica is enough"},
    {Bug::kDoubleCount, "double_count", "token_count", "a report counts its tokens twice"},
    {Bug::kLeaseTwice, "lease_twice", "token_count",
     "a replica is told to train the sequences of its last round again"},
    {Bug::kOverlappingLease, "overlapping_lease", "token_count",
     "a replica is told to train the sequences of another one of its round"},
    {Bug::kStaleSource, "stale_source", "identical_replicas",
     "a joiner gets an older state and does not compare digests"},
    {Bug::kReleaseIgnored, "release_ignored", "one_replica_per_device",
     "a trainer keeps a replica that was released"},
    {Bug::kTwoOnDevice, "two_on_device", "one_replica_per_device",
     "the core places a second replica on a device that is taken"},
    {Bug::kOneStageAgrees, "one_stage_agrees", "equal_votes",
     "a vote in one stage counts for the members of all others"},
    {Bug::kMixedCheckpoint, "mixed_checkpoint", "consistent_cut",
     "the last part of a checkpoint is of an earlier round"},
    {Bug::kAddsAgain, "adds_again", "exactly_once",
     "a device adds a gradient that it shall only answer"},
    {Bug::kLostViews, "lost_views", "views", "now and then a view is not sent"},
    {Bug::kSameView, "same_view", "views", "every view has the number 1"},
    {Bug::kForgottenCordon, "forgotten_cordon", "drains", "the core is never told of a cordon"},
    {Bug::kHastyDrain, "hasty_drain", "drains",
     "a drained agent is told to let go in the middle of a round"},
    {Bug::kForgottenRelease, "forgotten_release", "pauses",
     "the records keep replicas of a job that pauses"},
    {Bug::kForgottenStep, "forgotten_step", "pauses",
     "a job that continues has forgotten its last inner step"},
    {Bug::kForgottenRun, "forgotten_run", "ledger",
     "the records lose a run of sequences that was returned"},
    {Bug::kForgottenReducer, "forgotten_reducer", "reducers",
     "plans do not say which of their members only average"},
    {Bug::kEagerFeedback, "eager_feedback", "feedback",
     "what sparse2 did not send is settled at the vote, not at the commit"},
    {Bug::kLeakyFragment, "leaky_fragment", "streaming",
     "the outer step of one fragment changes the momentum of all, at every replica"},
    {Bug::kEarlyAdoption, "early_adoption", "streaming",
     "a result becomes local as soon as it is there, not at its step"},
    {Bug::kUncorrected, "uncorrected", "eager", "a result does not correct the eager step"},
    {Bug::kOwnTwice, "own_twice", "eager", "an estimate has the own part twice"},
    {Bug::kForgetfulAbort, "forgetful_abort", "eager", "an abort takes back all that was trained"},
    {Bug::kTailTwice, "tail_twice", "token_count",
     "the last step of a round is counted again with the steps behind its boundary"},
    {Bug::kSilentOwners, "silent_owners", "recomputation",
     "votes do not say whose contribution they excluded"},
    {Bug::kForgottenAnchor, "forgotten_anchor", "groups",
     "members of a group exchange pseudo-gradients without their anchors"},
    {Bug::kForgottenProgress, "forgotten_progress", "groups",
     "a member whose group gave up continues from its anchor, without what it trained"},
    {Bug::kForgottenMomentum, "forgotten_momentum", "sharded_momentum",
     "a range of sharded momentum that moves is left at zero"},
    {Bug::kForgivenMemory, "forgiven_memory", "refused_memory",
     "a device that ran out of memory is taken for sound at once"},
    {Bug::kDroppedProgress, "dropped_progress", "own_progress", "a late replica loses its own"},
    {Bug::kMissedRenewal, "missed_renewal", "recomputation", "one replica keeps its momentum"},
    {Bug::kDeafCoordinator, "deaf_coordinator", "coverage",
     "the core hears nothing more once a job has lost a replica it needs"},
    {Bug::kBuriedAlive, "buried_alive", "lost_rounds",
     "the core takes all replicas of a job for dead while they train"},
    {Bug::kForgottenTrainers, "forgotten_trainers", "found_trainers",
     "an agent that starts does not say which trainers of the one before it has found"},
    {Bug::kForgottenFolder, "forgotten_folder", "lost_rounds",
     "the core is not told of checkpoints on disk that its tables do not know"},
    {Bug::kUnmarkedBackup, "unmarked_backup", "histories",
     "a backup of the tables does not say that it is one"},
    {Bug::kStaleMomentum, "stale_momentum", "recorded_momentum",
     "the core keeps naming the momentum of the round before"},
    {Bug::kAssumedUpload, "assumed_upload", "stored_checkpoints",
     "the core takes an upload that failed for done"},
    {Bug::kHarshOutliers, "harsh_outliers", "honest_agents",
     "the core takes a norm slightly above the median for an outlier"},
    {Bug::kSliceTwice, "slice_twice", "evaluation_slices",
     "the core counts an evaluation for its slice and for the next one"},
    {Bug::kUnreadSums, "unread_sums", "sent_norms",
     "the core does not look at the sums of squares that owners vote with"},
    {Bug::kBlamesAnother, "blames_another", "honest_agents",
     "a joiner names another source than the one that gave it wrong bytes"},
    {Bug::kUnreadAudits, "unread_audits", "recomputation",
     "the core does not look at what an audit disputes"},
    {Bug::kUnreadCopies, "unread_copies", "lost_rounds",
     "the core does not hear what copies of stages hold"},
    {Bug::kGreedyBudget, "greedy_budget", "kept_cuts",
     "what was stored last goes at once, as if a budget asked for it"},
    {Bug::kUnreadDigest, "unread_digest", "same_data",
     "the core does not look at the digests of data files", Fault::kOtherData},
    {Bug::kSleepingCore, "sleeping_core", "deadlines",
     "the core hears nothing more once a round is over"},
    {Bug::kLostReports, "lost_reports", "deadlines", "reports never reach the core"},
    {Bug::kLostCommits, "lost_commits", "liveness", "commits never reach the trainers"},
};

}  // namespace

const std::vector<PlantedBug>& planted_bugs() {
  static const std::vector<PlantedBug> all(std::begin(kBugs), std::end(kBugs));
  return all;
}

const PlantedBug* find_bug(std::string_view name) {
  for (const PlantedBug& bug : planted_bugs()) {
    if (bug.name == name) return &bug;
  }
  return nullptr;
}

}  // namespace shoal::sim
