// API tokens: how people and their programs say who they are. A token has scopes (scopes.h), an
// expiry, and a record that keeps the hash of its secret.
//
//   shoalapi1.<id>.<secret>
//
// Threads: all functions may be called by any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/enumerators.h"
#include "base/fields.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "identity/scopes.h"

namespace shoal::identity {

struct ApiTokenTag {
  static constexpr std::string_view kPrefix = "tok_";
};
using ApiTokenId = Id<ApiTokenTag>;

// What its owner gets.
struct ApiToken {
  ApiTokenId id;
  std::string secret;
  bool operator==(const ApiToken&) const = default;
};
std::string to_string(const ApiToken& token);  // holds the secret: for its owner's eyes only
// Errors: invalid_argument, field "token". They repeat nothing of it.
Result<ApiToken> parse_api_token(std::string_view text);

inline constexpr std::size_t kOwnerMax = 64;
inline constexpr Duration kApiTokenLifeMost = seconds(std::int64_t{366} * 86'400);

// What the coordinator keeps.
struct ApiTokenRecord {
  ApiTokenId id;
  std::string owner;        // whose jobs are its own: letters, digits, ".", "_", "-", "@"
  std::string secret_hash;  // hash_of_secret()
  ScopeSet scopes;
  Instant created;
  Instant expires;
  bool revoked = false;
  bool operator==(const ApiTokenRecord&) const = default;
};
constexpr auto fields_of(Of<ApiTokenRecord>) {
  using T = ApiTokenRecord;
  return fields<&T::id, &T::owner, &T::secret_hash, &T::scopes, &T::created, &T::expires,
                &T::revoked>();
}

struct NewApiToken {
  ApiToken token;  // to be shown once
  ApiTokenRecord record;
};
// Errors: validation, field "owner" (1 to kOwnerMax characters of those above), "scopes" (none) or
// "ttl" (above 0, at most kApiTokenLifeMost).
Result<NewApiToken> make_api_token(ApiTokenId id, std::string_view owner, ScopeSet scopes,
                                   Duration life, Instant now);

enum class ApiTokenReason { kAccepted, kWrong, kRevoked, kExpired };
constexpr auto enumerators_of(Of<ApiTokenReason>) {
  using enum ApiTokenReason;
  return enumerators<ApiTokenReason>(
      {{kAccepted, "accepted"}, {kWrong, "wrong"}, {kRevoked, "revoked"}, {kExpired, "expired"}});
}

struct ApiTokenVerdict {
  ApiTokenReason reason = ApiTokenReason::kWrong;
  Duration expired_for;  // kExpired
  bool ok() const { return reason == ApiTokenReason::kAccepted; }
};

// Whether a secret is the one of this record; null when its id is unknown, which looks like a wrong
// secret. Only who knows the secret learns why the token no longer works.
ApiTokenVerdict check_api_token(const ApiTokenRecord* record, std::string_view secret, Instant now);

// Code unauthenticated, field "token". For a verdict that is not ok().
Error to_error(const ApiTokenVerdict& verdict);
// Code permission_denied: who may, and what the token has.
Error refused_by_scopes(std::string_view owner, ScopeSet scopes, Action action);

}  // namespace shoal::identity
