#include "identity/api_token.h"

#include "identity/identity_test_util.h"
#include "identity/secret.h"

namespace shoal::identity {
namespace {

Result<NewApiToken> make(std::string_view owner = "ana", ScopeSet scopes = {Scope::kSubmitter},
                         Duration life = days(30)) {
  return make_api_token(ApiTokenId(3), owner, scopes, life, kNoon);
}

TEST(ApiToken, HasOneText) {
  const ApiToken token = make()->token;
  const std::string text = to_string(token);
  EXPECT_EQ(text, "shoalapi1.tok_3." + token.secret);
  EXPECT_EQ(*parse_api_token(text), token);
  const std::string secret(64, 'a');
  const std::string refused[] = {"",
                                 "shoalapi1." + secret,
                                 "shoalapi1.tok_0." + secret,
                                 "shoalapi1.join_3." + secret,
                                 "shoaljoin1.tok_3." + secret,
                                 "shoalapi1.tok_3." + secret + "a",
                                 "shoalapi1.tok_3." + std::string(64, 'A'),
                                 "Bearer " + text,
                                 text + "\r\n"};
  for (const std::string& each : refused) {
    const auto parsed = parse_api_token(each);
    ASSERT_FALSE(parsed.ok()) << each;
    EXPECT_EQ(parsed.error().field, "token");
    EXPECT_EQ(to_string(parsed.error()).find(secret.substr(0, 8)), std::string::npos);
  }
}

TEST(ApiToken, LimitsAreChecked) {
  for (const std::string& owner :
       {std::string(), std::string("a b"), std::string("a\n"), std::string(kOwnerMax + 1, 'a')}) {
    EXPECT_EQ(make(owner).error().field, "owner");
  }
  EXPECT_TRUE(make("ana.b_c-1@lab.example.org").ok());
  EXPECT_EQ(make("ana", {}).error().field, "scopes");
  EXPECT_EQ(make("ana", {Scope::kViewer}, Duration{}).error().field, "ttl");
  EXPECT_EQ(make("ana", {Scope::kViewer}, kApiTokenLifeMost + seconds(1)).error().field, "ttl");
}

TEST(ApiToken, CountsUntilItEndsOrIsRevoked) {
  NewApiToken token = *make();
  const auto at = [&](Instant now) {
    return check_api_token(&token.record, token.token.secret, now);
  };
  EXPECT_TRUE(at(kNoon).ok());
  EXPECT_TRUE(at(kNoon + days(30) - nanoseconds(1)).ok());
  EXPECT_EQ(at(kNoon + days(30)).reason, ApiTokenReason::kExpired);
  EXPECT_EQ(at(kNoon + days(31)).expired_for, days(1));
  token.record.revoked = true;
  EXPECT_EQ(at(kNoon).reason, ApiTokenReason::kRevoked);
}

TEST(ApiToken, WithoutTheSecretNobodyLearnsWhatBecameOfIt) {
  NewApiToken token = *make();
  token.record.revoked = true;
  for (const std::string& secret : {std::string(), make_secret(), token.record.secret_hash}) {
    EXPECT_EQ(check_api_token(&token.record, secret, kNoon + days(99)).reason,
              ApiTokenReason::kWrong);
  }
  EXPECT_EQ(check_api_token(nullptr, token.token.secret, kNoon).reason, ApiTokenReason::kWrong);
}

TEST(ApiToken, RefusalsSayWhatIsNeeded) {
  const ApiTokenRecord record = make()->record;
  const Error error = refused_by_scopes(record.owner, record.scopes, Action::kDownloadCheckpoint);
  EXPECT_EQ(error.code, Code::kPermissionDenied);
  EXPECT_EQ(error.message,
            "download_checkpoint needs one of the scopes admin, operator (its own), submitter (its "
            "own); the token of ana has submitter");
  for (const auto& [reason, word] : kEnumerators<ApiTokenReason>) {
    if (reason == ApiTokenReason::kAccepted) continue;
    EXPECT_EQ(to_error(ApiTokenVerdict{reason, hours(1)}).code, Code::kUnauthenticated) << word;
  }
}

}  // namespace
}  // namespace shoal::identity
