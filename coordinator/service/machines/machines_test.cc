// The registry over a real store: what it makes, what survives a start, and what is refused.
#include "coordinator/service/machines/machines.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/store/store_test_util.h"
#include "identity/private_file.h"
#include "identity/renewal.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr Instant kNoon = from_unix_ms(1'800'000'000'000);
const std::string kUid(32, 'a');

class MachinesTest : public ::testing::Test {
 protected:
  MachinesTest() { EXPECT_TRUE(open().ok()); }

  Status open(const std::string& ca = {}) {
    machines_.reset();
    store_.reset();
    store_ = std::move(Store::open(folder_.path())).value();
    auto opened = Machines::open({.folder = folder_.path(),
                                  .given_ca = ca,
                                  .certificate_life = seconds(3600),
                                  .clock = [this] { return now_; }},
                                 *store_);
    if (!opened) return opened.error();
    machines_ = std::move(opened).value();
    return {};
  }
  Result<IssuedCertificate> enrol(const std::string& token, const identity::PrivateKey& key,
                                  const std::string& uid = kUid) {
    return machines_->enrol({token, identity::make_request(key), uid, "host", now_});
  }
  Result<IssuedCertificate> renew(const identity::PrivateKey& key, const std::string& chain) {
    const std::string request = identity::make_request(key);
    return machines_->renew({chain, request,
                             identity::prove_old_key(key, {machines_->cluster()},
                                                     *identity::SigningRequest::parse(request)),
                             now_});
  }
  static std::string leaf_of(const IssuedCertificate& issued) {
    return identity::Certificate::parse_chain(issued.chain)->front().pem();
  }
  std::string file(const char* name) const { return folder_.path() + "/" + name; }

  TemporaryFolder folder_;
  Instant now_ = kNoon;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Machines> machines_;
  const identity::PrivateKey key_ = identity::PrivateKey::make();
};

TEST_F(MachinesTest, AFirstStartMakesWhatANewcomerNeeds) {
  for (const char* name : {"ca.pem", "join_token", "tls/server.key", "tls/server.pem"}) {
    const auto rights = std::filesystem::status(file(name)).permissions();
    EXPECT_EQ(rights, std::filesystem::perms(0600)) << name;
  }
  const auto token = identity::read_token_file(file("join_token"));
  ASSERT_TRUE(token.ok());
  const auto issued = enrol(*token, key_);
  ASSERT_TRUE(issued.ok()) << to_string(issued.error());
  const auto caller = machines_->admit(leaf_of(*issued));
  ASSERT_TRUE(caller.ok()) << to_string(caller.error());
  EXPECT_EQ(caller->machine, issued->machine);
  EXPECT_EQ(caller->uid, kUid);
}

TEST_F(MachinesTest, EverythingSurvivesAStart) {
  const auto token = machines_->create_token(3, seconds(600));
  const auto issued = enrol(*token, key_);
  ASSERT_TRUE(issued.ok());
  const std::string cluster = machines_->cluster();
  const auto local = identity::read_token_file(file("join_token"));
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(machines_->cluster(), cluster);
  EXPECT_EQ(*identity::read_token_file(file("join_token")), *local);
  EXPECT_EQ(machines_->tokens().back().uses, 1);
  EXPECT_TRUE(machines_->admit(leaf_of(*issued)).ok());
  EXPECT_EQ(machines_->authorities().size(), 1u);
}

TEST_F(MachinesTest, ATokenLetsInAsManyAsItMay) {
  const auto token = machines_->create_token(1, seconds(600));
  ASSERT_TRUE(enrol(*token, key_).ok());
  EXPECT_TRUE(enrol(*token, key_).ok()) << "the same host, whose answer was lost";
  const auto second = enrol(*token, identity::PrivateKey::make(), std::string(32, 'b'));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kUnauthenticated);
  EXPECT_TRUE(machines_->create_token(0, seconds(600)).error().field == "uses");
  EXPECT_TRUE(machines_->create_token(1, seconds(0)).error().field == "ttl");
}

TEST_F(MachinesTest, ARemovedTokenLetsNobodyIn) {
  const auto token = machines_->create_token(5, seconds(600));
  const auto id = machines_->tokens().back().id;
  EXPECT_TRUE(machines_->remove_token(id).ok());
  EXPECT_FALSE(enrol(*token, key_).ok());
  EXPECT_EQ(machines_->remove_token(id).error().code, Code::kNotFound);
}

TEST_F(MachinesTest, ARevokedAgentIsOutAndItsSessionsEnd) {
  const auto issued = enrol(*machines_->create_token(1, seconds(600)), key_);
  std::vector<AgentId> ended;
  machines_->on_revoked([&](AgentId machine) { ended.push_back(machine); });
  ASSERT_TRUE(machines_->revoke(issued->machine).ok());
  EXPECT_THAT(ended, ::testing::ElementsAre(issued->machine));
  EXPECT_THAT(to_string(machines_->admit(leaf_of(*issued)).error()), HasSubstr("revoked"));
  EXPECT_FALSE(renew(key_, issued->chain).ok());
  EXPECT_EQ(machines_->revoke(issued->machine).error().code, Code::kConflict);
  ASSERT_TRUE(open().ok());
  EXPECT_FALSE(machines_->admit(leaf_of(*issued)).ok()) << "also after a start";
}

TEST_F(MachinesTest, ARevokedAgentIsToldOfUntilTheCertificatesOfItsReplicasHaveEnded) {
  const auto issued = enrol(*machines_->create_token(1, seconds(600)), key_);
  EXPECT_TRUE(machines_->recently_revoked().empty());
  ASSERT_TRUE(machines_->revoke(issued->machine).ok());
  now_ = now_ + identity::kReplicaLife;
  EXPECT_THAT(machines_->recently_revoked(), ::testing::ElementsAre(issued->machine));
  now_ = now_ + seconds(600);
  EXPECT_TRUE(machines_->recently_revoked().empty());
}

TEST_F(MachinesTest, ACertificateIsRenewedOnTheLineAndAfterAnOutage) {
  const auto issued = enrol(*machines_->create_token(1, seconds(600)), key_);
  now_ = now_ + seconds(1800);
  EXPECT_TRUE(renew(key_, issued->chain).ok());
  now_ = now_ + seconds(86'400);
  EXPECT_FALSE(machines_->admit(leaf_of(*issued)).ok()) << "it has expired";
  const auto back = renew(key_, issued->chain);
  ASSERT_TRUE(back.ok()) << to_string(back.error());
  EXPECT_EQ(back->machine, issued->machine);
  EXPECT_TRUE(machines_->admit(leaf_of(*back)).ok());
  EXPECT_FALSE(renew(identity::PrivateKey::make(), issued->chain).ok()) << "another key";
}

TEST_F(MachinesTest, ARotationTrustsBothCasUntilItIsOver) {
  const auto before = enrol(*machines_->create_token(1, seconds(600)), key_);
  ASSERT_TRUE(machines_->rotate().ok());
  EXPECT_EQ(machines_->rotate().error().code, Code::kConflict);
  EXPECT_TRUE(machines_->admit(leaf_of(*before)).ok());
  ASSERT_EQ(machines_->authorities().size(), 2u);
  EXPECT_EQ(machines_->authorities()[0].machines, 1);
  const auto after = renew(key_, before->chain);
  ASSERT_TRUE(after.ok()) << to_string(after.error());
  EXPECT_EQ(machines_->authorities()[0].machines, 0);
  EXPECT_EQ(machines_->authorities()[1].machines, 1);
  ASSERT_TRUE(open().ok());
  EXPECT_TRUE(machines_->admit(leaf_of(*after)).ok());
  now_ = now_ + identity::kOverlap;
  EXPECT_FALSE(machines_->admit(leaf_of(*before)).ok());
}

TEST_F(MachinesTest, ALostOrForeignCaStopsTheStart) {
  const std::string ca = file("ca.pem");
  std::filesystem::rename(ca, ca + ".away");
  EXPECT_EQ(open().error().code, Code::kDataLoss);
  ASSERT_TRUE(identity::Authority::make({"other"}, now_).save(ca).ok());
  EXPECT_EQ(open().error().code, Code::kConflict);
  std::filesystem::rename(ca + ".away", ca);
  EXPECT_TRUE(open().ok());
  std::filesystem::permissions(ca, std::filesystem::perms(0644));
  EXPECT_THAT(to_string(open().error()), HasSubstr("chmod 600"));
}

TEST_F(MachinesTest, AGivenCaIsForANewClusterOnly) {
  const std::string given = file("given.pem");
  ASSERT_TRUE(identity::Authority::make({"given"}, now_).save(given).ok());
  EXPECT_EQ(open(given).error().field, "--ca");
}

TEST_F(MachinesTest, ItsOwnCertificateAndTokenAreRenewedInTime) {
  const auto own = identity::read_private_file(file("tls/server.pem"));
  const auto token = identity::read_token_file(file("join_token"));
  now_ = now_ + seconds(4 * 86'400);
  ASSERT_TRUE(machines_->keep_up().ok());
  EXPECT_NE(*identity::read_private_file(file("tls/server.pem")), *own);
  EXPECT_EQ(*identity::read_token_file(file("join_token")), *token);
  now_ = now_ + seconds(80 * 86'400);
  ASSERT_TRUE(machines_->keep_up().ok());
  EXPECT_NE(*identity::read_token_file(file("join_token")), *token);
}

TEST_F(MachinesTest, AMachineThatTheStoreForgotIsKnownAgain) {
  const auto issued = enrol(*machines_->create_token(1, seconds(600)), key_);
  machines_.reset();
  store_.reset();
  for (const char* name : {"state.db", "state.db-wal", "state.db-shm", "telemetry.db"})
    std::filesystem::remove(file(name));
  store_ = std::move(Store::open(folder_.path())).value();
  store_->write_machines(
      {AuthorityRecord{
          identity::to_hex(
              identity::Certificate::parse_chain(issued->roots)->front().fingerprint()),
          issued->cluster,
          now_,
          {}}},
      [](const Status& s) { EXPECT_TRUE(s.ok()); });
  ASSERT_TRUE(open().ok());
  const auto caller = machines_->admit(leaf_of(*issued));
  ASSERT_TRUE(caller.ok()) << to_string(caller.error());
  EXPECT_EQ(caller->uid, "");
  ASSERT_TRUE(machines_->admit_folder(*caller, kUid, "host").ok());
  EXPECT_EQ(machines_->admit(leaf_of(*issued))->uid, kUid);
}

}  // namespace
}  // namespace shoal::coordinator
