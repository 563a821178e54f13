#include "identity/join_token.h"

#include "identity/peer.h"
#include "identity/secret.h"

namespace shoal::identity {
namespace {

constexpr std::string_view kPrefix = "shoaljoin1";
constexpr char kMakeOne[] = "make a new one on the coordinator: shoal token create --join";

}  // namespace

std::string to_string(const JoinToken& token) {
  return std::string(kPrefix) + "." + to_hex(token.ca) + "." + to_string(token.id) + "." +
         token.secret;
}

Result<JoinToken> parse_join_token(std::string_view text) {
  const Error malformed{Code::kInvalidArgument, "is not a join token", "token",
                        "copy all of it: shoaljoin1, the CA's hash, an id and the secret, "
                        "separated by dots"};
  const auto words = words_of_token(text, kPrefix, 3);
  if (!words) return malformed;
  const auto ca = parse_hash((*words)[0]);
  const auto id = parse_id<JoinTokenTag>((*words)[1]);
  if (!ca || !id) return malformed;
  return JoinToken{*ca, *id, std::string((*words)[2])};
}

Result<NewJoinToken> make_join_token(JoinTokenId id, const Hash256& ca, std::int64_t uses,
                                     Duration life, Instant now) {
  if (uses < 1 || uses > kJoinUsesMost) {
    return Error{
        Code::kValidation,
        "must be from 1 to " + std::to_string(kJoinUsesMost) + ", got " + std::to_string(uses),
        "uses", "give the number of hosts that will join with it"};
  }
  if (life <= Duration{} || life > kJoinLifeMost) {
    return Error{Code::kValidation, "must be above 0 and at most " + to_words(kJoinLifeMost), "ttl",
                 "give, for example, 1h"};
  }
  const JoinToken token{ca, id, make_secret()};
  return NewJoinToken{token,
                      {.id = id,
                       .secret_hash = hash_of_secret(token.secret),
                       .uses_most = uses,
                       .created = now,
                       .expires = now + life}};
}

JoinVerdict redeem(const JoinTokenRecord* record, std::string_view secret, Instant now) {
  if (record == nullptr || !is_secret_of(secret, record->secret_hash)) return {};
  if (record->revoked) return {.reason = JoinReason::kRevoked};
  if (now >= record->expires) {
    return {.reason = JoinReason::kExpired, .expired_for = now - record->expires};
  }
  if (record->uses >= record->uses_most) return {.reason = JoinReason::kUsedUp};
  return {.reason = JoinReason::kAccepted, .uses_left = record->uses_most - record->uses - 1};
}

Error to_error(const JoinVerdict& verdict) {
  const auto refused = [](std::string message) {
    return Error{Code::kUnauthenticated, std::move(message), "token", kMakeOne};
  };
  switch (verdict.reason) {
    case JoinReason::kRevoked:
      return refused("the join token was revoked");
    case JoinReason::kExpired:
      return refused("the join token expired " + to_words(verdict.expired_for) +
                     " ago by the coordinator's clock");
    case JoinReason::kUsedUp:
      return refused("the join token has admitted as many agents as it may");
    case JoinReason::kAccepted:
    case JoinReason::kWrong:
      break;
  }
  return refused("the coordinator does not know this join token");
}

}  // namespace shoal::identity
