// What people and programs read of who takes part: join tokens, CAs, and what a host gets that
// joins. A token's text is in no answer but the one that makes it.
#pragma once

#include <string>

#include "base/enumerators.h"
#include "base/fields.h"
#include "base/ids.h"
#include "base/time.h"
#include "identity/join_token.h"

namespace shoal::coordinator::rest {

enum class TokenState { kWorks, kUsedUp, kExpired, kRevoked };
constexpr auto enumerators_of(Of<TokenState>) {
  using enum TokenState;
  return enumerators<TokenState>(
      {{kWorks, "works"}, {kUsedUp, "used_up"}, {kExpired, "expired"}, {kRevoked, "revoked"}});
}

struct JoinTokenAnswer {
  identity::JoinTokenId id;
  TokenState state = TokenState::kWorks;
  std::int64_t uses = 0;
  std::int64_t uses_max = 0;
  Instant created_at;
  Instant expires_at;
};
constexpr auto fields_of(Of<JoinTokenAnswer>) {
  using T = JoinTokenAnswer;
  return fields<&T::id, &T::state, &T::uses, &T::uses_max, &T::created_at, &T::expires_at>();
}
constexpr const char* schema_name(Of<JoinTokenAnswer>) { return "JoinToken"; }

struct NewJoinTokenAnswer {
  std::string token;
};
constexpr auto fields_of(Of<NewJoinTokenAnswer>) {
  using T = NewJoinTokenAnswer;
  return fields<&T::token>();
}
constexpr const char* schema_name(Of<NewJoinTokenAnswer>) { return "NewJoinToken"; }

struct AuthorityAnswer {
  std::string fingerprint;
  std::string cluster;
  bool issues = false;
  std::int64_t machines = 0;
  Instant since;
  Instant trusted_until;
};
constexpr auto fields_of(Of<AuthorityAnswer>) {
  using T = AuthorityAnswer;
  return fields<&T::fingerprint, &T::cluster, &T::issues, &T::machines, &T::since,
                &T::trusted_until>();
}
constexpr const char* schema_name(Of<AuthorityAnswer>) { return "Authority"; }

struct CertificateAnswer {
  AgentId agent;
  std::string cluster;
  std::string chain;
  std::string roots;
};
constexpr auto fields_of(Of<CertificateAnswer>) {
  using T = CertificateAnswer;
  return fields<&T::agent, &T::cluster, &T::chain, &T::roots>();
}
constexpr const char* schema_name(Of<CertificateAnswer>) { return "Certificate"; }

}  // namespace shoal::coordinator::rest
