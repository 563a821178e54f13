// Which hosts may join and connect, and what each refusal says: decisions without files or store.
#include "coordinator/service/machines/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr Instant kNoon = from_unix_ms(1'800'000'000'000);
const std::string kUid(32, 'a'), kOtherUid(32, 'b');

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    auto made = identity::make_join_token(identity::JoinTokenId(1), ca_.fingerprint(), 2,
                                          seconds(3600), kNoon);
    token_ = identity::to_string(made->token);
    registry_.tokens.emplace(made->record.id, made->record);
    registry_.next_machine = 7;
  }

  static identity::SigningRequest request_of(const identity::PrivateKey& key) {
    return *identity::SigningRequest::parse(identity::make_request(key));
  }
  Result<Admission> enrol(const identity::PrivateKey& key, const std::string& uid,
                          Instant now = kNoon) {
    const Enrolment asked{
        .token = token_, .request = "", .uid = uid, .name = "a", .clock = now + off_};
    return decide_enrolment(registry_, ca_.roots(now), asked, request_of(key), now);
  }
  void add_machine(AgentId id, const identity::PrivateKey& key, const std::string& uid) {
    registry_.machines[id] = {.id = id,
                              .uid = uid,
                              .name = "known",
                              .key_hash = identity::to_hex(key.public_fingerprint())};
  }
  Result<Caller> call(const identity::PrivateKey& key, AgentId id, Instant now = kNoon) {
    const auto certificate = ca_.issue_agent(request_of(key), id, kNoon);
    return decide_caller(registry_, *certificate, ca_.roots(now), cluster_, now, &why_);
  }
  std::string why(const Result<Admission>& refused) {
    EXPECT_FALSE(refused.ok());
    return refused.ok() ? "" : to_string(refused.error());
  }

  const identity::ClusterName cluster_{"reef"};
  identity::Authority ca_ = identity::Authority::make(cluster_, kNoon);
  const identity::PrivateKey key_ = identity::PrivateKey::make();
  const identity::PrivateKey other_key_ = identity::PrivateKey::make();
  Registry registry_;
  RefusalReason why_{};
  std::string token_;
  Duration off_;
};

TEST_F(AdmissionTest, ANewHostGetsTheNextId) {
  const auto admitted = enrol(key_, kUid);
  ASSERT_TRUE(admitted.ok()) << to_string(admitted.error());
  EXPECT_EQ(admitted->machine, AgentId(7));
  EXPECT_TRUE(admitted->counts);
}

TEST_F(AdmissionTest, AnAgentOfBeforeKeepsItsId) {
  registry_.agents_before[kUid] = AgentId(3);
  EXPECT_EQ(enrol(key_, kUid)->machine, AgentId(3));
}

TEST_F(AdmissionTest, AHostWhoseAnswerWasLostAsksAgainAtNoFurtherUse) {
  add_machine(AgentId(7), key_, kUid);
  registry_.tokens.begin()->second.uses = 2;
  const auto again = enrol(key_, kUid);
  ASSERT_TRUE(again.ok()) << to_string(again.error());
  EXPECT_EQ(again->machine, AgentId(7));
  EXPECT_FALSE(again->counts);
}

TEST_F(AdmissionTest, ATokenThatDoesNotWorkIsRefusedWithTheReason) {
  EXPECT_THAT(why(enrol(key_, kUid, kNoon + seconds(3660))), HasSubstr("expired 1 min ago"));
  registry_.tokens.begin()->second.uses = 2;
  EXPECT_THAT(why(enrol(key_, kUid)), HasSubstr("as many agents as it may"));
  registry_.tokens.begin()->second.revoked = true;
  EXPECT_THAT(why(enrol(key_, kUid)), HasSubstr("revoked"));
  token_.back() = token_.back() == '0' ? '1' : '0';
  EXPECT_THAT(why(enrol(key_, kUid)), HasSubstr("does not know"));
  token_ = "secret";
  EXPECT_THAT(why(enrol(key_, kUid)), HasSubstr("is not a join token"));
}

TEST_F(AdmissionTest, ATokenOfAnotherClusterIsRefused) {
  ca_ = identity::Authority::make(cluster_, kNoon);
  EXPECT_THAT(why(enrol(key_, kUid)), HasSubstr("another cluster"));
}

TEST_F(AdmissionTest, AClockThatIsAnHourOffIsNamedWithTheDifference) {
  off_ = seconds(3600);
  EXPECT_THAT(why(enrol(key_, kUid)), HasSubstr("1 h ahead of the coordinator's"));
  off_ = seconds(-3660);
  EXPECT_THAT(why(enrol(key_, kUid)), HasSubstr("1 h 1 min behind the coordinator's"));
  off_ = identity::kBackdate;
  EXPECT_TRUE(enrol(key_, kUid).ok());
}

TEST_F(AdmissionTest, NobodyTakesTheFolderOfAMachine) {
  add_machine(AgentId(7), other_key_, kUid);
  const auto refused = enrol(key_, kUid);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kConflict);
  registry_.machines.at(AgentId(7)).revoked_at = kNoon;
  EXPECT_THAT(why(enrol(other_key_, kUid)), HasSubstr("was revoked"));
}

TEST_F(AdmissionTest, ACallerIsWhoItsCertificateNames) {
  add_machine(AgentId(7), key_, kUid);
  const auto caller = call(key_, AgentId(7));
  ASSERT_TRUE(caller.ok()) << to_string(caller.error());
  EXPECT_EQ(caller->machine, AgentId(7));
  EXPECT_TRUE(check_folder(*caller, kUid).ok());
  const Status other = check_folder(*caller, kOtherUid);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, Code::kPermissionDenied);
  EXPECT_THAT(to_string(other.error()), HasSubstr("agt_7"));
}

TEST_F(AdmissionTest, ARevokedMachineIsRefused) {
  add_machine(AgentId(7), key_, kUid);
  registry_.machines.at(AgentId(7)).revoked_at = kNoon;
  const auto caller = call(key_, AgentId(7));
  ASSERT_FALSE(caller.ok());
  EXPECT_THAT(to_string(caller.error()), HasSubstr("was revoked"));
  EXPECT_EQ(why_, RefusalReason::kRevoked);
}

TEST_F(AdmissionTest, AnExpiredCertificateSaysSinceWhen) {
  add_machine(AgentId(7), key_, kUid);
  const auto caller = call(key_, AgentId(7), kNoon + identity::kAgentLife + seconds(7200));
  ASSERT_FALSE(caller.ok());
  EXPECT_THAT(to_string(caller.error()), HasSubstr("expired 2 h ago"));
  EXPECT_EQ(why_, RefusalReason::kExpired);
}

TEST_F(AdmissionTest, AnIdThatABackupGaveOutTwiceIsRefused) {
  add_machine(AgentId(7), other_key_, kUid);
  const auto caller = call(key_, AgentId(7));
  ASSERT_FALSE(caller.ok());
  EXPECT_THAT(to_string(caller.error()), HasSubstr("restored from a backup"));
}

TEST_F(AdmissionTest, AMachineThatABackupForgotIsLetIn) {
  const auto caller = call(key_, AgentId(9));
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ(caller->uid, "");
  EXPECT_TRUE(check_folder(*caller, kUid).ok());
}

}  // namespace
}  // namespace shoal::coordinator
