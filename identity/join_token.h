// Join tokens: with one a host becomes an agent of the cluster.
//
//   shoaljoin1.<SHA-256 of the CA's certificate>.<id>.<secret>
//
// The joiner compares the coordinator's CA with the hash before it shows the secret, so nobody
// between them learns it. The coordinator keeps a record per token: how often and how long it
// works, and the secret's hash.
//
// Threads: all functions may be called by any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/enumerators.h"
#include "base/fields.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "identity/hash256.h"

namespace shoal::identity {

struct JoinTokenTag {
  static constexpr std::string_view kPrefix = "join_";
};
using JoinTokenId = Id<JoinTokenTag>;

// What the joiner gets.
struct JoinToken {
  Hash256 ca;  // fingerprint of the CA's certificate
  JoinTokenId id;
  std::string secret;
  bool operator==(const JoinToken&) const = default;
};
std::string to_string(const JoinToken& token);  // holds the secret: for its owner's eyes only
// Errors: invalid_argument, field "token". They repeat nothing of it.
Result<JoinToken> parse_join_token(std::string_view text);

inline constexpr std::int64_t kJoinUsesMost = 100'000;
inline constexpr Duration kJoinLifeMost = seconds(90 * 86'400);

// What the coordinator keeps.
struct JoinTokenRecord {
  JoinTokenId id;
  std::string secret_hash;  // hash_of_secret()
  std::int64_t uses_most = 1;
  std::int64_t uses = 0;  // agents that it let in
  Instant created;
  Instant expires;
  bool revoked = false;
  bool operator==(const JoinTokenRecord&) const = default;
};
constexpr auto fields_of(Of<JoinTokenRecord>) {
  using T = JoinTokenRecord;
  return fields<&T::id, &T::secret_hash, &T::uses_most, &T::uses, &T::created, &T::expires,
                &T::revoked>();
}

struct NewJoinToken {
  JoinToken token;  // to be shown once
  JoinTokenRecord record;
};
// Errors: validation, field "uses" (1 to kJoinUsesMost) or "ttl" (above 0, at most kJoinLifeMost).
Result<NewJoinToken> make_join_token(JoinTokenId id, const Hash256& ca, std::int64_t uses,
                                     Duration life, Instant now);

enum class JoinReason { kAccepted, kWrong, kRevoked, kExpired, kUsedUp };
constexpr auto enumerators_of(Of<JoinReason>) {
  using enum JoinReason;
  return enumerators<JoinReason>({{kAccepted, "accepted"},
                                  {kWrong, "wrong"},
                                  {kRevoked, "revoked"},
                                  {kExpired, "expired"},
                                  {kUsedUp, "used_up"}});
}

struct JoinVerdict {
  JoinReason reason = JoinReason::kWrong;
  std::int64_t uses_left = 0;  // kAccepted: after this use
  Duration expired_for;        // kExpired
  bool ok() const { return reason == JoinReason::kAccepted; }
};

// Whether a secret lets a host in. `record` is the one of the token's id, null when there is none:
// to a stranger that looks like a wrong secret, and only who knows the secret learns why the token
// no longer works. Changes nothing: the caller counts the use in the step that admits the agent.
JoinVerdict redeem(const JoinTokenRecord* record, std::string_view secret, Instant now);

// Code unauthenticated, field "token". For a verdict that is not ok().
Error to_error(const JoinVerdict& verdict);

}  // namespace shoal::identity
