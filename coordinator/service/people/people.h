// The registry of people: owns the tokens for the REST interface, the browsers that have logged in,
// the tickets that log one in once, and the audit trail. What a principal may do is in
// identity/scopes.h; rows are in the store (people_rows.h), and one file of mode 0600 in the data
// folder:
//
//   admin.token    an admin's token for people on this host, who may read the folder anyway
//
// Threads: all methods may be called by any thread. Those that change a token or a session wait
// until the row is durable; those that look one up never wait for a disk.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "coordinator/core/state/io.h"
#include "coordinator/store/store.h"
#include "identity/api_token.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

inline constexpr const char* kAdminName = "admin";              // owner of the token in the file
inline constexpr const char* kSessionCookie = "shoal_session";  // its value: session_text()
inline constexpr Duration kSessionLife = seconds(7 * 86'400);   // at most; a token may end before
inline constexpr Duration kTicketLife = seconds(600);
inline constexpr std::size_t kSessionsMost = 1'000, kTicketsMost = 100;  // the oldest goes
inline constexpr std::size_t kApiTokensMost = 1'000;                     // that still work

inline constexpr const char* kCoordinatorItself = "(coordinator)";  // in the audit trail

// Its row, without number and time.
AuditRecord audit_of(const NoteDecision& decision);

// A person or program that has shown a token, or a browser that is logged in with one.
struct Principal {
  std::string name;
  identity::ScopeSet scopes;
  identity::ApiTokenId token;
  Instant expires;
  std::string session_hash = {};  // of the browser's session; empty: the token itself was shown
};

struct NewSession {
  std::string cookie;  // value of kSessionCookie; to be shown once
  Principal principal;
};

struct PeopleOptions {
  std::string folder;              // the data folder
  std::function<Instant()> clock;  // null: the system's
};

class People {
 public:
  // Errors name the file and the remedy: admin.token that others can read. `store` must outlive it.
  static Result<std::unique_ptr<People>> open(PeopleOptions options, Store& store);

  // Writes a new admin.token where it is missing, expires soon or is not valid any more. A thread
  // of its own does that from start_upkeep() on.
  Status keep_up();
  void start_upkeep();
  std::string admin_token_file() const { return options_.folder + "/admin.token"; }

  // ---- who asks. `authorization` and `cookie` are the headers of these names, empty when absent;
  // the former counts where both are there. Code unauthenticated, with the reason and the remedy.
  Result<Principal> who(std::string_view authorization, std::string_view cookie) const;
  // Whether that is so still: neither the token nor the session has ended.
  bool is_still(const Principal& principal) const;

  // ---- browsers. Code unauthenticated.
  Result<NewSession> log_in(std::string_view token);
  Result<NewSession> log_in_with_ticket(std::string_view ticket);
  // Ends the session of this cookie, if there is one, and returns its principal.
  Result<Principal> log_out(std::string_view cookie);
  // Logs a browser in once, within kTicketLife, as the same principal. Tickets are not stored: a
  // restart of the coordinator ends them.
  struct Ticket {
    std::string text;
    Instant expires;
  };
  Ticket make_ticket(const Principal& principal);

  // ---- tokens. Errors: those of make_api_token(); resource_exhausted at kApiTokensMost.
  struct NewToken {
    std::string text;  // to be shown once
    identity::ApiTokenRecord record;
  };
  Result<NewToken> create_token(std::string_view name, identity::ScopeSet scopes, Duration life);
  std::vector<identity::ApiTokenRecord> tokens() const;
  Result<identity::ApiTokenRecord> revoke_token(identity::ApiTokenId token);  // not_found

  // ---- the audit trail: gives the record its number and its time. `done` runs once it is durable,
  // on a thread of the store.
  void note(AuditRecord record, std::function<void(Status)> done);

  Instant now() const { return options_.clock(); }

 private:
  struct StoredTicket {
    std::string hash;
    identity::ApiTokenId token;
    Instant expires;
  };

  People(PeopleOptions options, Store& store, PeopleTables tables);
  Result<Principal> of_token(std::string_view text) const SHOAL_REQUIRES(mutex_);
  Result<Principal> of_cookie(std::string_view cookie) const SHOAL_REQUIRES(mutex_);
  const SessionRecord* session_of(std::string_view text) const SHOAL_REQUIRES(mutex_);
  Principal principal_of(const identity::ApiTokenRecord& token) const;
  SessionId place_for_session() const SHOAL_REQUIRES(mutex_);
  Result<NewSession> begin_session(Principal principal) SHOAL_REQUIRES(writing_)
      SHOAL_EXCLUDES(mutex_);
  Result<NewToken> make_token(std::string_view name, identity::ScopeSet scopes, Duration life)
      SHOAL_REQUIRES(writing_) SHOAL_EXCLUDES(mutex_);
  bool admin_token_lasts(const std::string& text) const SHOAL_EXCLUDES(mutex_);
  Status commit(PeopleRow row) SHOAL_REQUIRES(writing_);

  const PeopleOptions options_;
  Store& store_;
  Mutex writing_;  // held by one change at a time, also while it waits for the disk

  mutable Mutex mutex_;  // of what follows, never held while something is written
  std::map<identity::ApiTokenId, identity::ApiTokenRecord> tokens_ SHOAL_GUARDED_BY(mutex_);
  std::map<SessionId, SessionRecord> sessions_ SHOAL_GUARDED_BY(mutex_);
  std::deque<StoredTicket> tickets_ SHOAL_GUARDED_BY(mutex_);
  std::int64_t audit_seq_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::jthread upkeep_;  // last: it uses the others
};

}  // namespace shoal::coordinator
