#include "coordinator/core/state/commit_proof.h"

#include <gtest/gtest.h>

#include "coordinator/core/restore_test_util.h"

namespace shoal::coordinator {
namespace {

struct ProofRig : HeldRig {
  ProofRig() {
    commit(1);
    of_a = held_replicas(state(), {rep_a}).front();
  }
  ProofVerdict verdict(const HeldReplica& held, AgentId agent = AgentId(1)) const {
    return check_proof(record_keys, agent, held);
  }
  HeldReplica of_a;
};

TEST(CommitProof, IsGoodForTheMemberThatItWasIssuedTo) {
  const ProofRig rig;
  EXPECT_EQ(rig.verdict(rig.of_a), ProofVerdict::kGood);
  EXPECT_EQ(rig.verdict(rig.of_a, AgentId(2)), ProofVerdict::kOtherMember);
  HeldReplica other = rig.of_a;
  other.replica = rig.rep_b;
  EXPECT_EQ(rig.verdict(other), ProofVerdict::kOtherMember);
}

// Each of these is a field that a member could profit from changing.
TEST(CommitProof, CoversEveryFieldOfTheRecordAndOfItself) {
  const ProofRig rig;
  const auto forged = [&](auto change) {
    HeldReplica held = rig.of_a;
    change(held.record);
    return rig.verdict(held);
  };
  EXPECT_EQ(forged([](CommitRecord& r) { ++r.key.round; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { ++r.key.epoch; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { ++r.step.n; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { ++r.tokens.n; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { ++r.next_sequence; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.returned.push_back({0, 1}); }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.outer_lr += 1; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.next_replica += 9; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.data = {1, 1}; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.averages.push_back({}); }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.proof.owner = "eve"; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.proof.priority = 99; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.proof.job_name = "x"; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.proof.agent = AgentId(2); }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.proof.anchors.clear(); }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.proof.mac.back() ^= 1; }), ProofVerdict::kForged);
  EXPECT_EQ(forged([](CommitRecord& r) { r.proof = {}; }), ProofVerdict::kUnsigned);
}

TEST(CommitProof, TheStateAndTheSpecificationAreTheSignedOnes) {
  const ProofRig rig;
  HeldReplica held = rig.of_a;
  held.anchor = {6, 6};
  EXPECT_EQ(rig.verdict(held), ProofVerdict::kOtherState);
  held = rig.of_a;
  held.momentum = {6, 6};
  EXPECT_EQ(rig.verdict(held), ProofVerdict::kOtherState);
  held = rig.of_a;
  held.value_count = 7;
  EXPECT_EQ(rig.verdict(held), ProofVerdict::kOtherState);
  held = rig.of_a;
  held.spec.data.train = "/srv/private.txt";
  EXPECT_EQ(rig.verdict(held), ProofVerdict::kOtherJob);
  held = rig.of_a;
  held.job = JobId(77);
  EXPECT_EQ(rig.verdict(held), ProofVerdict::kOtherJob);
}

TEST(CommitProof, KeysAreToldApartByClusterAndNumber) {
  ProofRig rig;
  const HeldReplica held = rig.of_a;
  rig.record_keys = {{"other/1", "secret", {}}};
  EXPECT_EQ(rig.verdict(held), ProofVerdict::kOtherCluster);
  rig.record_keys = {{"test/2", "newer", {}}};
  EXPECT_EQ(rig.verdict(held), ProofVerdict::kUnknownKey);
  rig.record_keys = {{"test/1", "secret", {}}, {"test/2", "newer", {}}};
  EXPECT_EQ(rig.verdict(held), ProofVerdict::kGood) << "the old key still verifies";
  rig.record_keys = {{"test/1", "stolen", {}}};
  EXPECT_EQ(rig.verdict(held), ProofVerdict::kForged);
}

TEST(CommitProof, MembersGetTheDigestsAfterTheOuterStep) {
  ProofRig rig;
  const auto renewed = rig.last<ToReplica<KeepRecord>>(rig.a);
  ASSERT_TRUE(renewed);
  EXPECT_EQ(renewed->body.record.key, rig.key(1));
  EXPECT_EQ(renewed->body.record.proof.anchors, (std::vector<Digest>{{1, 3}}));
  EXPECT_TRUE(rig.last<ToReplica<CommitRound>>(rig.a)->body.record.proof.anchors.empty())
      << "not known yet";
}

TEST(CommitProof, ANewKeySignsWhatMembersHold) {
  ProofRig rig;
  rig.record_keys.push_back({"test/2", "newer", {}});
  rig.input(RecordKeysChanged{rig.record_keys});
  EXPECT_EQ(rig.last<ToReplica<KeepRecord>>(rig.b)->body.record.proof.key_id, "test/2");
}

TEST(CommitProof, AnAgentOfTheVersionBeforeGetsNoRenewal) {
  struct OldRig : HeldRig {
    OldRig() { commit(1); }
  } rig;
  Hello old{.uid = "uid-a", .name = "a"};
  old.incarnation = rig.state().agents.at(AgentId(1)).incarnation;
  old.protocol = 4;
  old.devices = rig.state().agents.at(AgentId(1)).devices;
  old.replicas = held_replicas(rig.state(), {rig.rep_a});
  old.replicas[0].record.proof = {};
  rig.input(AgentHello{ConnectionId{901}, old});
  EXPECT_EQ(rig.last<Welcome>(ConnectionId{901})->keep, std::vector{rig.rep_a});
  EXPECT_FALSE(rig.last<ToReplica<KeepRecord>>(ConnectionId{901}));
  old.protocol = 5;
  rig.input(AgentHello{ConnectionId{902}, old});
  EXPECT_TRUE(rig.last<ToReplica<KeepRecord>>(ConnectionId{902})) << "upgraded in place";
}

}  // namespace
}  // namespace shoal::coordinator
