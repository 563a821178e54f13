// The membership of a host without a coordinator: its files, and which of them are refused.
// Joining and renewing are in tests/integration/machines_test.cc, with a real one.
#include "agent/host/membership.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"
#include "identity/authority.h"
#include "identity/join_token.h"
#include "identity/private_file.h"
#include "threads/clock.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;

class MembershipTest : public testing::Test {
 protected:
  Result<std::shared_ptr<Membership>> open(const std::string& token = {}) {
    // Port 1 answers nobody.
    return Membership::open({.folder = folder_.path(),
                             .uid = std::string(32, 'a'),
                             .name = "host",
                             .join_token = token,
                             .enrol = "127.0.0.1:1",
                             .coordinator = "127.0.0.1:1"});
  }
  std::string file(const char* name) const { return folder_.path() + "/" + name; }
  std::string token() const {
    return identity::to_string(identity::make_join_token(identity::JoinTokenId(1),
                                                         ca_.fingerprint(), 1, seconds(60),
                                                         unix_now())
                                   ->token);
  }
  // As if it had joined with this key, long enough ago that the certificate has `left`.
  void join(const identity::PrivateKey& key, Duration left) {
    const Instant issued = unix_now() - identity::kAgentLife + left;
    const auto certificate =
        ca_.issue_agent(*identity::SigningRequest::parse(identity::make_request(key)), AgentId(7),
                        std::max(issued, ca_.certificate().not_before()));
    ASSERT_TRUE(certificate.ok());
    ASSERT_TRUE(identity::write_private_file(file("machine.pem"), certificate->pem()).ok());
    ASSERT_TRUE(identity::write_private_file(file("machine.roots"), ca_.certificate().pem()).ok());
  }

  TestFolder folder_;
  const identity::Authority ca_ =
      identity::Authority::make({"reef"}, unix_now() - identity::kAgentLife * 2);
};

TEST_F(MembershipTest, AHostThatHasNotJoinedNeedsAToken) {
  const auto refused = open();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "--join-token");
  EXPECT_THAT(refused.error().remedy, HasSubstr("shoal token create --join"));
  EXPECT_EQ(open("secret").error().field, "--join-token");
  EXPECT_TRUE(open(token()).ok()) << "nobody is asked yet";
}

TEST_F(MembershipTest, WhoCannotReachTheCoordinatorTriesAgain) {
  const auto membership = open(token());
  ASSERT_TRUE(membership.ok());
  const Status joined = (*membership)->ensure();
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().code, Code::kUnavailable);
  EXPECT_THAT(joined.error().remedy, HasSubstr("--enrol"));
}

TEST_F(MembershipTest, AMemberNeedsNobodyWhileItsCertificateCounts) {
  const auto key = identity::PrivateKey::make();
  ASSERT_TRUE(key.save(file("machine.key")).ok());
  join(key, identity::kAgentLife);
  const auto membership = open();
  ASSERT_TRUE(membership.ok()) << to_string(membership.error());
  EXPECT_TRUE((*membership)->ensure().ok());
  EXPECT_NE((*membership)->credentials(), nullptr);
  EXPECT_FALSE((*membership)->fault()) << "nobody answers, which is not the certificates' fault";
}

TEST_F(MembershipTest, AfterAnOutageItAsksForANewCertificate) {
  const auto key = identity::PrivateKey::make();
  ASSERT_TRUE(key.save(file("machine.key")).ok());
  join(key, seconds(-3600));
  const auto membership = open();
  ASSERT_TRUE(membership.ok());
  EXPECT_EQ((*membership)->ensure().error().code, Code::kUnavailable);
}

TEST_F(MembershipTest, DamagedAndOpenFilesAreRefusedByName) {
  const auto key = identity::PrivateKey::make();
  ASSERT_TRUE(key.save(file("machine.key")).ok());
  join(identity::PrivateKey::make(), identity::kAgentLife);
  EXPECT_EQ(open().error().field, file("machine.pem")) << "of another key";
  ASSERT_TRUE(identity::write_private_file(file("machine.pem"), "damaged").ok());
  EXPECT_EQ(open().error().field, file("machine.pem"));
  std::filesystem::permissions(file("machine.key"), std::filesystem::perms(0644));
  EXPECT_THAT(to_string(open().error()), HasSubstr("chmod 600"));
}

}  // namespace
}  // namespace shoal::agent
