#include "identity/api_token.h"

#include "identity/peer.h"
#include "identity/secret.h"

namespace shoal::identity {
namespace {

constexpr std::string_view kPrefix = "shoalapi1";
constexpr char kAskForOne[] = "ask an admin for a new token: shoal token create";

bool is_owner(std::string_view owner) {
  if (owner.empty() || owner.size() > kOwnerMax) return false;
  for (const char c : owner) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_letter && !is_digit && c != '.' && c != '_' && c != '-' && c != '@') return false;
  }
  return true;
}

std::string scopes_that_allow(Action action) {
  std::string text;
  for (const auto& [scope, word] : kEnumerators<Scope>) {
    const Grant grant = granted({scope}, action);
    if (grant == Grant::kNone) continue;
    text += (text.empty() ? "" : ", ") + std::string(word);
    if (grant == Grant::kOwn) text += " (its own)";
  }
  return text;
}

}  // namespace

std::string to_string(const ApiToken& token) {
  return std::string(kPrefix) + "." + to_string(token.id) + "." + token.secret;
}

Result<ApiToken> parse_api_token(std::string_view text) {
  const auto words = words_of_token(text, kPrefix, 2);
  const auto id = words ? parse_id<ApiTokenTag>((*words)[0]) : std::nullopt;
  if (id) return ApiToken{*id, std::string((*words)[1])};
  return Error{Code::kInvalidArgument, "is not an API token", "token",
               "copy all of it: shoalapi1, an id and the secret, separated by dots"};
}

Result<NewApiToken> make_api_token(ApiTokenId id, std::string_view owner, ScopeSet scopes,
                                   Duration life, Instant now) {
  if (!is_owner(owner)) {
    return Error{Code::kValidation, quoted(owner) + " is not a valid name for an owner", "owner",
                 "give 1 to 64 letters, digits, dots, hyphens, underscores and @"};
  }
  if (scopes.empty()) {
    return Error{Code::kValidation, "a token needs a scope", "scopes",
                 "give some of admin, operator, submitter, viewer, metrics"};
  }
  if (life <= Duration{} || life > kApiTokenLifeMost) {
    return Error{Code::kValidation, "must be above 0 and at most " + to_words(kApiTokenLifeMost),
                 "ttl", "give, for example, 30d"};
  }
  const ApiToken token{id, make_secret()};
  return NewApiToken{token,
                     {.id = id,
                      .owner = std::string(owner),
                      .secret_hash = hash_of_secret(token.secret),
                      .scopes = scopes,
                      .created = now,
                      .expires = now + life}};
}

ApiTokenVerdict check_api_token(const ApiTokenRecord* record, std::string_view secret,
                                Instant now) {
  if (record == nullptr || !is_secret_of(secret, record->secret_hash)) return {};
  if (record->revoked) return {.reason = ApiTokenReason::kRevoked};
  if (now >= record->expires) return {ApiTokenReason::kExpired, now - record->expires};
  return {.reason = ApiTokenReason::kAccepted};
}

Error to_error(const ApiTokenVerdict& verdict) {
  const auto refused = [](std::string message) {
    return Error{Code::kUnauthenticated, std::move(message), "token", kAskForOne};
  };
  switch (verdict.reason) {
    case ApiTokenReason::kRevoked:
      return refused("the token was revoked");
    case ApiTokenReason::kExpired:
      return refused("the token expired " + to_words(verdict.expired_for) +
                     " ago by the coordinator's clock");
    case ApiTokenReason::kAccepted:
    case ApiTokenReason::kWrong:
      break;
  }
  return refused("the coordinator does not know this token");
}

Error refused_by_scopes(std::string_view owner, ScopeSet scopes, Action action) {
  return {Code::kPermissionDenied,
          std::string(to_string(action)) + " needs one of the scopes " + scopes_that_allow(action) +
              "; the token of " + std::string(owner) + " has " + to_string(scopes),
          "token", kAskForOne};
}

}  // namespace shoal::identity
