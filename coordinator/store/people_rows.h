// What the store keeps of people: their tokens, the browsers that have logged in, and the audit
// trail. Like machine_rows.h these rows are not of the core's state. Their owner is
// coordinator/service/people/people.h.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"
#include "base/time.h"
#include "identity/api_token.h"

namespace shoal::coordinator {

struct SessionTag {
  static constexpr std::string_view kPrefix = "ses_";
};
using SessionId = Id<SessionTag>;

// A browser that has logged in. Ids are few and used again; the secret is what counts.
struct SessionRecord {
  SessionId id;
  identity::ApiTokenId token;  // that it was begun with, and ends with
  std::string secret_hash;     // of its cookie's secret; empty: it is over
  Instant expires;
  bool operator==(const SessionRecord&) const = default;
};
constexpr auto fields_of(Of<SessionRecord>) {
  using T = SessionRecord;
  return fields<&T::id, &T::token, &T::secret_hash, &T::expires>();
}

// One change, by whom. Appended only.
struct AuditRecord {
  std::int64_t seq = 0;
  Instant at;
  std::string principal;  // owner of the token
  std::string token;      // id: tok_3, or join_5 of a host that joins
  std::string action;     // cancel_job; coordinator/service/http/routes/routes.cc has the words
  std::string object;     // id: job_7; may be empty
  std::string before, after;
  bool operator==(const AuditRecord&) const = default;
};
constexpr auto fields_of(Of<AuditRecord>) {
  using T = AuditRecord;
  return fields(field<&T::seq>(), field<&T::at>(), field<&T::principal>(), field<&T::token>(),
                field<&T::action>(), field<&T::object>(), field<&T::before>("before_value"),
                field<&T::after>("after_value"));
}

using PeopleRow = std::variant<identity::ApiTokenRecord, SessionRecord, AuditRecord>;

struct PeopleTables {
  std::vector<identity::ApiTokenRecord> tokens;
  std::vector<SessionRecord> sessions;
  std::int64_t audit_seq = 0;  // the newest; 0: none yet
};

}  // namespace shoal::coordinator
