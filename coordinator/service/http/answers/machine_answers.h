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
  return fields(field<&T::id>("id"), field<&T::state>("state"), field<&T::uses>("uses"),
                field<&T::uses_max>("uses_max"), field<&T::created_at>("created_at"),
                field<&T::expires_at>("expires_at"));
}
static_assert(lists_every_field<JoinTokenAnswer>());
constexpr const char* schema_name(Of<JoinTokenAnswer>) { return "JoinToken"; }

struct NewJoinTokenAnswer {
  std::string token;
};
constexpr auto fields_of(Of<NewJoinTokenAnswer>) {
  using T = NewJoinTokenAnswer;
  return fields(field<&T::token>("token"));
}
static_assert(lists_every_field<NewJoinTokenAnswer>());
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
  return fields(field<&T::fingerprint>("fingerprint"), field<&T::cluster>("cluster"),
                field<&T::issues>("issues"), field<&T::machines>("machines"),
                field<&T::since>("since"), field<&T::trusted_until>("trusted_until"));
}
static_assert(lists_every_field<AuthorityAnswer>());
constexpr const char* schema_name(Of<AuthorityAnswer>) { return "Authority"; }

struct CertificateAnswer {
  AgentId agent;
  std::string cluster;
  std::string chain;
  std::string roots;
};
constexpr auto fields_of(Of<CertificateAnswer>) {
  using T = CertificateAnswer;
  return fields(field<&T::agent>("agent"), field<&T::cluster>("cluster"), field<&T::chain>("chain"),
                field<&T::roots>("roots"));
}
static_assert(lists_every_field<CertificateAnswer>());
constexpr const char* schema_name(Of<CertificateAnswer>) { return "Certificate"; }

}  // namespace shoal::coordinator::rest
