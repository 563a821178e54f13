#include "identity/certificate.h"

#include "identity/identity_test_util.h"
#include "identity/openssl.h"

namespace shoal::identity {
namespace {

TEST(Certificate, IsTheSameAfterItsTexts) {
  const Cluster cluster;
  const Certificate made = cluster.agent();
  EXPECT_EQ(Certificate::parse(made.pem())->fingerprint(), made.fingerprint());
  EXPECT_EQ(Certificate::from_der(made.der())->fingerprint(), made.fingerprint());
  EXPECT_EQ(made.fingerprint(), sha256(made.der()));
  EXPECT_EQ(made.serial().size(), 32u);
  EXPECT_NE(made.serial(), cluster.agent().serial());
  const auto chain = Certificate::parse_chain(to_pem(cluster.shown(made)));
  ASSERT_TRUE(chain.ok());
  ASSERT_EQ(chain->size(), 2u);
  EXPECT_EQ(chain->back().fingerprint(), cluster.ca.fingerprint());
}

TEST(Certificate, KeysBesideItArePassedOver) {
  const Certificate made = Cluster().agent();
  EXPECT_EQ(Certificate::parse(PrivateKey::make().pem() + made.pem())->fingerprint(),
            made.fingerprint());
}

TEST(Certificate, RefusesWhatIsNone) {
  const std::string pem = Cluster().agent().pem(), der = Cluster().agent().der();
  EXPECT_FALSE(Certificate::parse("").ok());
  EXPECT_FALSE(Certificate::parse(pem + pem).ok());
  EXPECT_FALSE(Certificate::parse(pem.substr(0, pem.size() / 2)).ok());
  EXPECT_FALSE(Certificate::parse_chain(pem + pem.substr(0, pem.size() / 2)).ok());
  EXPECT_FALSE(Certificate::parse(PrivateKey::make().pem()).ok());
  EXPECT_FALSE(Certificate::parse(std::string(kChainTextMax + 1, '\n')).ok());
  EXPECT_FALSE(Certificate::from_der(der + "x").ok());
  EXPECT_FALSE(Certificate::from_der(der.substr(1)).ok());
  EXPECT_FALSE(Certificate::from_der(std::string(kCertificateMax + 1, '0')).ok());
  std::string many;
  for (std::size_t i = 0; i < kChainMost; ++i) many += pem;
  EXPECT_TRUE(Certificate::parse_chain(many).ok());
  EXPECT_EQ(Certificate::parse_chain(many + pem).error().field, "certificate");
  EXPECT_EQ(ERR_peek_error(), 0u);
}

Result<PeerName> name_by(const char* alternative_names) {
  return with_extension(Cluster().agent(), NID_subject_alt_name, alternative_names,
                        PrivateKey::make())
      .name();
}

TEST(Certificate, NamesOneMemberOnly) {
  EXPECT_EQ(to_string(*name_by("URI:shoal://reef/agent/agt_7,DNS:reef")),
            "shoal://reef/agent/agt_7");
  EXPECT_FALSE(name_by("URI:shoal://reef/agent/agt_7,URI:shoal://reef/agent/agt_8").ok());
  EXPECT_FALSE(name_by("URI:https://reef/agent/agt_7").ok());
  EXPECT_FALSE(name_by("DNS:shoal").ok());
  EXPECT_FALSE(name_by("").ok());
}

TEST(Certificate, TimesAreUtc) { EXPECT_EQ(to_utc(kNoon), "2027-01-15 08:00:00 UTC"); }

}  // namespace
}  // namespace shoal::identity
