#include "identity/join_token.h"

#include "identity/identity_test_util.h"
#include "identity/secret.h"

namespace shoal::identity {
namespace {

const Hash256 kCa = sha256("ca");

NewJoinToken made(std::int64_t uses = 3, Duration life = hours(1)) {
  return *make_join_token(JoinTokenId(5), kCa, uses, life, kNoon);
}

TEST(JoinToken, HasOneText) {
  const JoinToken token = made().token;
  const std::string text = to_string(token);
  EXPECT_EQ(text, "shoaljoin1." + to_hex(kCa) + ".join_5." + token.secret);
  EXPECT_EQ(*parse_join_token(text), token);
  const std::string hash = to_hex(kCa), secret(64, 'a');
  const std::string refused[] = {"",
                                 "shoaljoin2." + hash + ".join_5." + secret,
                                 "shoaljoin1." + hash + ".join_0." + secret,
                                 "shoaljoin1." + hash + ".tok_5." + secret,
                                 "shoaljoin1." + hash.substr(1) + ".join_5." + secret,
                                 "shoaljoin1." + hash + ".join_5." + secret.substr(1),
                                 "shoaljoin1." + hash + "." + secret,
                                 text + "\n",
                                 " " + text,
                                 text + std::string(1, '\0')};
  for (const std::string& each : refused) {
    const auto parsed = parse_join_token(each);
    ASSERT_FALSE(parsed.ok()) << each;
    EXPECT_EQ(parsed.error().field, "token");
    EXPECT_EQ(to_string(parsed.error()).find(secret.substr(0, 8)), std::string::npos);
  }
}

TEST(JoinToken, TheRecordDoesNotHoldTheSecret) {
  const NewJoinToken token = made();
  EXPECT_NE(token.record.secret_hash, token.token.secret);
  EXPECT_EQ(token.record.secret_hash, hash_of_secret(token.token.secret));
}

TEST(JoinToken, LimitsAreChecked) {
  for (const std::int64_t uses : {std::int64_t{0}, std::int64_t{-1}, kJoinUsesMost + 1}) {
    EXPECT_EQ(make_join_token(JoinTokenId(5), kCa, uses, hours(1), kNoon).error().field, "uses");
  }
  for (const Duration life : {Duration{}, hours(-1), kJoinLifeMost + seconds(1)}) {
    EXPECT_EQ(make_join_token(JoinTokenId(5), kCa, 1, life, kNoon).error().field, "ttl");
  }
}

TEST(Redeem, LetsInAsOftenAsItMay) {
  NewJoinToken token = made(2);
  for (const std::int64_t left : {1, 0}) {
    const JoinVerdict verdict = redeem(&token.record, token.token.secret, kNoon);
    EXPECT_EQ(verdict.reason, JoinReason::kAccepted);
    EXPECT_EQ(verdict.uses_left, left);
    ++token.record.uses;
  }
  EXPECT_EQ(redeem(&token.record, token.token.secret, kNoon).reason, JoinReason::kUsedUp);
}

TEST(Redeem, EndsAtItsExpiry) {
  const NewJoinToken token = made();
  const auto at = [&](Instant now) { return redeem(&token.record, token.token.secret, now); };
  EXPECT_TRUE(at(kNoon + hours(1) - nanoseconds(1)).ok());
  EXPECT_EQ(at(kNoon + hours(1)).reason, JoinReason::kExpired);
  EXPECT_EQ(at(kNoon + hours(3)).expired_for, hours(2));
}

TEST(Redeem, ARevokedOneIsRefused) {
  NewJoinToken token = made();
  token.record.revoked = true;
  EXPECT_EQ(redeem(&token.record, token.token.secret, kNoon).reason, JoinReason::kRevoked);
}

TEST(Redeem, WithoutTheSecretNobodyLearnsWhatBecameOfIt) {
  NewJoinToken token = made();
  token.record.revoked = true;
  token.record.uses = token.record.uses_most;
  const Instant late = kNoon + days(1);
  EXPECT_EQ(redeem(&token.record, made().token.secret, late).reason, JoinReason::kWrong);
  EXPECT_EQ(redeem(&token.record, token.record.secret_hash, late).reason, JoinReason::kWrong);
  EXPECT_EQ(redeem(&token.record, "", late).reason, JoinReason::kWrong);
  EXPECT_EQ(redeem(nullptr, token.token.secret, late).reason, JoinReason::kWrong);
}

TEST(Redeem, EveryReasonHasItsSentence) {
  std::vector<std::string> texts;
  for (const auto& [reason, word] : kEnumerators<JoinReason>) {
    if (reason == JoinReason::kAccepted) continue;
    const Error error = to_error(JoinVerdict{.reason = reason, .expired_for = hours(2)});
    EXPECT_EQ(error.code, Code::kUnauthenticated) << word;
    EXPECT_EQ(error.field, "token");
    EXPECT_EQ(std::count(texts.begin(), texts.end(), error.message), 0) << word;
    texts.push_back(error.message);
  }
}

}  // namespace
}  // namespace shoal::identity
