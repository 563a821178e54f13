// What people and programs read of themselves: who one is, tokens, and the audit trail. A token's
// text is in no answer but the one that makes it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/enumerators.h"
#include "base/fields.h"
#include "base/time.h"
#include "identity/api_token.h"

namespace shoal::coordinator::rest {

struct PrincipalAnswer {
  std::string name;
  std::string scope;  // one word, or several with commas
  identity::ApiTokenId token_id;
  std::int64_t expires_at_ms = 0;                           // Unix time of the login's end
  std::vector<std::pair<std::string, std::string>> grants;  // action -> any, own
};
constexpr auto fields_of(Of<PrincipalAnswer>) {
  using T = PrincipalAnswer;
  return fields<&T::name, &T::scope, &T::token_id, &T::expires_at_ms, &T::grants>();
}
constexpr const char* schema_name(Of<PrincipalAnswer>) { return "Principal"; }

enum class ApiTokenState { kWorks, kExpired, kRevoked };
constexpr auto enumerators_of(Of<ApiTokenState>) {
  using enum ApiTokenState;
  return enumerators<ApiTokenState>(
      {{kWorks, "works"}, {kExpired, "expired"}, {kRevoked, "revoked"}});
}

struct ApiTokenAnswer {
  identity::ApiTokenId id;
  std::string name;
  std::string scope;
  ApiTokenState state = ApiTokenState::kWorks;
  Instant created_at;
  Instant expires_at;
};
constexpr auto fields_of(Of<ApiTokenAnswer>) {
  using T = ApiTokenAnswer;
  return fields<&T::id, &T::name, &T::scope, &T::state, &T::created_at, &T::expires_at>();
}
constexpr const char* schema_name(Of<ApiTokenAnswer>) { return "ApiToken"; }

struct NewApiTokenAnswer {
  std::string token;
  identity::ApiTokenId id;
  std::string name;
  std::string scope;
  ApiTokenState state = ApiTokenState::kWorks;
  Instant created_at;
  Instant expires_at;
};
constexpr auto fields_of(Of<NewApiTokenAnswer>) {
  using T = NewApiTokenAnswer;
  return fields<&T::token, &T::id, &T::name, &T::scope, &T::state, &T::created_at,
                &T::expires_at>();
}
constexpr const char* schema_name(Of<NewApiTokenAnswer>) { return "NewApiToken"; }

struct TicketAnswer {
  std::string ticket;
  Instant expires_at;
};
constexpr auto fields_of(Of<TicketAnswer>) {
  using T = TicketAnswer;
  return fields<&T::ticket, &T::expires_at>();
}
constexpr const char* schema_name(Of<TicketAnswer>) { return "Ticket"; }

struct AuditAnswer {
  std::int64_t id = 0;
  Instant at;
  std::string principal;
  std::string token;
  std::string action;
  std::string object;
  std::string before;
  std::string after;
};
constexpr auto fields_of(Of<AuditAnswer>) {
  using T = AuditAnswer;
  return fields<&T::id, &T::at, &T::principal, &T::token, &T::action, &T::object, &T::before,
                &T::after>();
}
constexpr const char* schema_name(Of<AuditAnswer>) { return "Audit"; }

}  // namespace shoal::coordinator::rest
