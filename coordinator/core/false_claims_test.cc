// Members that return with states which were never committed: whatever they say, nothing changes
// but their own replicas.
#include <gmock/gmock.h>

#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/restore_test_util.h"
#include "coordinator/core/restoring.h"
#include "coordinator/core/state/corrupt_records.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

struct ClaimRig : BackupRig {
  ClaimRig() {
    for (RoundNumber round = 1; round <= 3; ++round) commit(round);
  }
  // What a third agent, which holds nothing, returns with; its Welcome.
  Welcome evil_says(HeldReplica held) {
    const ConnectionId evil{++connections_};
    Hello said = hello("evil-" + std::to_string(evil.n), {std::move(held)});
    said.incarnation = {};
    input(AgentHello{evil, said});
    stay(seconds(20));
    return last<Welcome>(evil).value();
  }
  HeldReplica false_claim(RoundNumber round) const {
    HeldReplica claim = held(rep_a);
    claim.replica = ReplicaId(900'001);
    claim.key.round = claim.record.key.round = round;
    claim.anchor = {0xdead, 0xbeef};
    return claim;
  }
  void expect_untouched() {
    EXPECT_EQ(job(id).committed_round, 3);
    EXPECT_EQ(job(id).epoch, 0);
    EXPECT_EQ(job(id).phase, JobPhase::kTraining);
    EXPECT_EQ(stage_of(job(id), 0).anchor, (Digest{3, 3}));
    EXPECT_EQ(state().replicas.at(rep_a).state, ReplicaState::kServing);
    EXPECT_EQ(state().replicas.at(rep_b).state, ReplicaState::kServing);
    EXPECT_EQ(state().counters.backup_at, Instant());
    EXPECT_TRUE(state().restoring.empty());
  }
  std::string refusal() const {
    for (const EventRecord& event : events) {
      if (event.kind == event_kind::kClaimRefused) return event.message;
    }
    return "";
  }
  std::uint64_t connections_ = 950;
};

TEST(FalseClaims, AnUnsignedNewerRoundChangesNothing) {
  ClaimRig rig;
  HeldReplica claim = rig.false_claim(2000);
  claim.record.proof = {};
  EXPECT_TRUE(rig.evil_says(claim).keep.empty());
  rig.expect_untouched();
  EXPECT_THAT(rig.refusal(), HasSubstr("not signed"));
  EXPECT_EQ(rig.state().claims_refused, 1);
}

TEST(FalseClaims, AForgedOrStolenRecordChangesNothing) {
  ClaimRig rig;
  EXPECT_TRUE(rig.evil_says(rig.false_claim(2000)).keep.empty());
  EXPECT_THAT(rig.refusal(), HasSubstr("false"));
  HeldReplica stolen = rig.held(rig.rep_a);  // another agent's, as it is
  EXPECT_TRUE(rig.evil_says(stolen).keep.empty());
  rig.expect_untouched();
}

TEST(FalseClaims, AJobIsNotMadeFromAClaim) {
  ClaimRig rig;
  const auto next = rig.state().counters.next_job;
  for (const std::uint64_t job : {std::uint64_t{4242}, kIdMax}) {
    HeldReplica claim = rig.false_claim(5);
    claim.job = claim.key.job = claim.record.key.job = JobId(job);
    claim.spec.name = "pwned";
    claim.record.proof = {};
    EXPECT_TRUE(rig.evil_says(claim).keep.empty());
    EXPECT_FALSE(rig.state().jobs.contains(JobId(job)));
  }
  EXPECT_EQ(rig.state().counters.next_job, next);
  rig.expect_untouched();
}

TEST(FalseClaims, AnEarlierRecordOfItsOwnChangesNothing) {
  ClaimRig rig;
  HeldReplica old = rig.held(rig.rep_a);
  rig.commit(4);
  HeldReplica now = rig.held(rig.rep_a);
  rig.input(AgentHello{ConnectionId{901}, rig.hello("a", {old})});
  EXPECT_EQ(rig.last<Welcome>(ConnectionId{901})->keep, std::vector{rig.rep_a});
  EXPECT_EQ(rig.job(rig.id).committed_round, 4);
  EXPECT_TRUE(rig.state().restoring.empty());
}

TEST(FalseClaims, TheSameAfterARestart) {
  ClaimRig rig;
  rig.restart();
  rig.a = ConnectionId{970}, rig.b = ConnectionId{971};
  rig.input(AgentHello{rig.a, rig.hello("a", {rig.held(rig.rep_a)})});
  rig.input(AgentHello{rig.b, rig.hello("b", {rig.held(rig.rep_b)})});
  rig.evil_says(rig.false_claim(2000));
  rig.expect_untouched();
}

TEST(FalseClaims, ARestoredJobTakesOwnerAndPriorityFromTheSignature) {
  BackupRig rig;
  const Snapshot backup = rig.before_the_job();
  rig.commit(1);
  HeldReplica of_a = rig.held(rig.rep_a), of_b = rig.held(rig.rep_b);
  for (HeldReplica* held : {&of_a, &of_b}) {
    held->record.proof.owner = "ada";
    held->record.proof.priority = 7;
    rig.sign(*held);
    held->spec.name = "another";  // only the signed name counts
  }
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {of_b})});
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).owner, "ada");
  EXPECT_EQ(rig.job(rig.id).priority, 7);
  EXPECT_EQ(rig.job(rig.id).spec.name, "job");
  EXPECT_EQ(rig.job(rig.id).committed_round, 1);
}

TEST(FalseClaims, ASignedAnchorDecidesAgainstALiarOfTheSameRound) {
  BackupRig rig;
  rig.commit(1);
  const Snapshot backup = rig.backup();
  rig.commit(2);
  HeldReplica of_a = rig.held(rig.rep_a), liar = rig.held(rig.rep_b);
  liar.anchor = {6, 6};
  liar.record.proof.anchors.clear(), liar.record.proof.momenta.clear();  // from before the digests
  rig.sign(liar);
  rig.restore(backup);
  rig.input(AgentHello{ConnectionId{801}, rig.hello("a", {of_a})});
  rig.input(AgentHello{ConnectionId{802}, rig.hello("b", {liar})});
  rig.beat(6);
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
  EXPECT_EQ(stage_of(rig.job(rig.id), 0).anchor, of_a.anchor);
}

TEST(FalseClaims, ANewerKeyIsAskedForAndWaitedFor) {
  BackupRig rig;
  rig.commit(1);
  const Snapshot backup = rig.backup();
  const RecordKeys old = rig.record_keys;
  rig.record_keys.push_back({"test/2", "newer", {}});
  rig.input(RecordKeysChanged{rig.record_keys});
  rig.commit(2);
  const HeldReplica of_a = rig.held(rig.rep_a), of_b = rig.held(rig.rep_b);
  const RecordKeys newer = rig.record_keys;
  const auto come = [&](std::uint64_t first) {
    rig.input(AgentHello{ConnectionId{first}, rig.hello("a", {of_a})});
    rig.input(AgentHello{ConnectionId{first + 1}, rig.hello("b", {of_b})});
  };
  rig.record_keys = old;
  rig.restore(backup);
  come(801);
  rig.beat(10);
  EXPECT_EQ(rig.last<Welcome>(ConnectionId{801})->keep, std::vector{rig.rep_a}) << "it is kept";
  EXPECT_EQ(rig.job(rig.id).reason, JobReason::kRestoring);
  EXPECT_TRUE(std::ranges::any_of(rig.events, [](const EventRecord& event) {
    return event.message.find("copy record_keys.json") != std::string::npos;
  }));
  rig.record_keys = newer;
  rig.restart();
  come(801);
  rig.beat(10);
  EXPECT_EQ(rig.job(rig.id).committed_round, 2);
}

}  // namespace
}  // namespace shoal::coordinator
