#include "identity/renewal.h"

#include "identity/identity_test_util.h"

namespace shoal::identity {
namespace {

const Validity kDayLong{kNoon, kNoon + days(1)};

TEST(PlanRenewal, IsAtTwoThirdsMoreOrLess) {
  std::vector<Instant> instants;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    instants.push_back(plan_renewal(kDayLong, seed, kNoon).renew_at);
  }
  std::sort(instants.begin(), instants.end());
  EXPECT_GE(instants.front(), kNoon + hours(16) - minutes(72));
  EXPECT_LE(instants.back(), kNoon + hours(16) + minutes(72));
  // Spread over all of it: a tenth of them in each tenth of the time, about.
  for (std::int64_t tenth = 0; tenth < 10; ++tenth) {
    const Instant from = kNoon + hours(16) - minutes(72) + seconds(tenth * 864);
    const auto count = std::count_if(instants.begin(), instants.end(), [&](Instant at) {
      return at >= from && at < from + seconds(864);
    });
    EXPECT_GT(count, 60) << tenth;
    EXPECT_LT(count, 140) << tenth;
  }
}

TEST(PlanRenewal, EachLifeHasItsOwnInstant) {
  const Validity next{kNoon + hours(16), kNoon + hours(40)};
  EXPECT_NE(plan_renewal(kDayLong, 1, kNoon).renew_at - kDayLong.from,
            plan_renewal(next, 1, kNoon).renew_at - next.from);
}

TEST(PlanRenewal, GoesFromKeepingToProving) {
  const RenewalPlan plan = plan_renewal(kDayLong, 7, kNoon);
  const auto step_at = [](Instant now) { return plan_renewal(kDayLong, 7, now).step; };
  EXPECT_EQ(plan.step, RenewalStep::kKeep);
  EXPECT_EQ(step_at(kNoon - hours(1)), RenewalStep::kKeep);  // a clock that was set back
  EXPECT_EQ(step_at(plan.renew_at - nanoseconds(1)), RenewalStep::kKeep);
  EXPECT_EQ(step_at(plan.renew_at), RenewalStep::kRenew);
  EXPECT_EQ(step_at(kDayLong.to - nanoseconds(1)), RenewalStep::kRenew);
  EXPECT_EQ(step_at(kDayLong.to), RenewalStep::kProveOldKey);
  EXPECT_EQ(plan_renewal(kDayLong, 7, kDayLong.to).renew_at, plan.renew_at);
}

// An agent that was cut off, and its claim to be that agent.
struct Outage {
  Cluster cluster;
  PrivateKey old_key = PrivateKey::make();
  Certificate old = *cluster.ca.issue_agent(request_of(old_key), AgentId(7), kNoon);
  SigningRequest request = request_of(PrivateKey::make());
  ReturnClaim claim{{old}, request, prove_old_key(old_key, cluster.name, request)};

  ReturnVerdict decide(Instant now = kNoon + days(3), const Revocations& revoked = {}) const {
    return decide_return(claim, cluster.ca.roots(now), revoked, cluster.name, now);
  }
};

TEST(DecideReturn, AnAgentComesBackByItsOldKey) {
  const Outage outage;
  const ReturnVerdict verdict = outage.decide();
  EXPECT_EQ(verdict.reason, ReturnReason::kAccepted);
  EXPECT_EQ(verdict.agent, AgentId(7));
  EXPECT_EQ(verdict.expired_for, days(2));
  EXPECT_TRUE(outage.decide(kNoon).ok());  // also before the end
}

TEST(DecideReturn, NotOnceItWasRevoked) {
  const Outage outage;
  const ReturnVerdict verdict = outage.decide(kNoon + days(3), {{AgentId(7)}, {}});
  EXPECT_EQ(verdict.reason, ReturnReason::kRevoked);
  EXPECT_EQ(verdict.agent, AgentId());
  EXPECT_EQ(outage.decide(kNoon + days(3), {{}, {outage.old.serial()}}).reason,
            ReturnReason::kRevoked);
}

TEST(DecideReturn, NotAfterTooLong) {
  const Outage outage;
  const Instant end = outage.old.not_after();
  EXPECT_TRUE(outage.decide(end + kOutageMost).ok());
  EXPECT_EQ(outage.decide(end + kOutageMost + seconds(1)).reason, ReturnReason::kTooLongAgo);
}

TEST(DecideReturn, NotWithoutTheKey) {
  Outage outage;
  const PrivateKey stolen = PrivateKey::make();
  outage.claim.proof = prove_old_key(stolen, outage.cluster.name, outage.request);
  EXPECT_EQ(outage.decide().reason, ReturnReason::kWrongProof);
  outage.claim.proof = "";
  EXPECT_EQ(outage.decide().reason, ReturnReason::kWrongProof);
  // A proof that was listened to is for another request, or another cluster.
  Outage other;
  other.claim.request = request_of(stolen);
  EXPECT_EQ(other.decide().reason, ReturnReason::kWrongProof);
  Outage third;
  third.claim.proof = prove_old_key(third.old_key, {"pond"}, third.request);
  EXPECT_EQ(third.decide().reason, ReturnReason::kWrongProof);
}

TEST(DecideReturn, OnlyAgentsOfThisCa) {
  Outage outage;
  outage.claim.chain = {*Cluster().ca.issue_agent(request_of(outage.old_key), AgentId(7), kNoon)};
  const ReturnVerdict verdict = outage.decide();
  EXPECT_EQ(verdict.reason, ReturnReason::kNotBelieved);
  EXPECT_EQ(verdict.peer.fault, PeerFault::kForeignCa);
  Outage replica;
  replica.claim.chain = {
      *replica.cluster.ca.issue_replica(request_of(replica.old_key), kReplica, kNoon)};
  EXPECT_EQ(replica.decide().reason, ReturnReason::kNoAgent);
  replica.claim.chain.clear();
  EXPECT_EQ(replica.decide().reason, ReturnReason::kNotBelieved);
}

TEST(DecideReturn, OnlyAgentsOfThisCluster) {
  const Given given;
  const auto reef = *given.authority("reef"), pond = *given.authority("pond");
  Outage outage;
  outage.claim.chain = {*pond.issue_agent(request_of(outage.old_key), AgentId(7), kNoon)};
  const auto verdict =
      decide_return(outage.claim, reef.roots(kNoon), {}, {"reef"}, kNoon + hours(1));
  EXPECT_EQ(verdict.reason, ReturnReason::kNotBelieved);
  EXPECT_EQ(verdict.peer.fault, PeerFault::kOtherCluster);
}

TEST(DecideReturn, EveryReasonHasItsSentence) {
  for (const auto& [reason, word] : kEnumerators<ReturnReason>) {
    if (reason == ReturnReason::kAccepted) continue;
    ReturnVerdict verdict;
    verdict.reason = reason;
    const Error error = to_error(verdict, {"reef"});
    EXPECT_EQ(error.code, Code::kUnauthenticated) << word;
    EXPECT_FALSE(error.remedy.empty()) << word;
  }
}

}  // namespace
}  // namespace shoal::identity
