#include "coordinator/service/people/people.h"

#include <algorithm>
#include <future>

#include <spdlog/spdlog.h>

#include "base/text.h"
#include "identity/private_file.h"
#include "identity/secret.h"
#include "threads/clock.h"
#include "threads/sleep.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kUpkeepEvery = seconds(3600);
constexpr std::string_view kSessionPrefix = "shoalses1";
constexpr const char* kShowOne =
    "give the CLI a token with `shoal login` or SHOAL_TOKEN; a browser logs in at /login";

Error stranger(std::string message) {
  return {Code::kUnauthenticated, std::move(message), "", kShowOne};
}

std::string session_text(SessionId id, const std::string& secret) {
  return std::string(kSessionPrefix) + "." + to_string(id) + "." + secret;
}

// "a=1; shoal_session=x" to "x"; empty: it is not there.
std::string_view session_in(std::string_view cookie) {
  while (!cookie.empty()) {
    const std::string_view pair = trimmed(cookie.substr(0, cookie.find(';')));
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == kSessionCookie)
      return pair.substr(equals + 1);
    const std::size_t semicolon = cookie.find(';');
    cookie.remove_prefix(semicolon == std::string_view::npos ? cookie.size() : semicolon + 1);
  }
  return {};
}

// The token behind "Bearer "; the word counts in any case (RFC 9110, section 11.1).
Result<std::string_view> bearer_of(std::string_view authorization) {
  constexpr std::string_view kWord = "bearer ";
  const std::string_view word = authorization.substr(0, kWord.size());
  const bool is_bearer = std::ranges::equal(word, kWord, [](char given, char wanted) {
    return (given >= 'A' && given <= 'Z' ? static_cast<char>(given + ('a' - 'A')) : given) ==
           wanted;
  });
  if (is_bearer) return trimmed(authorization.substr(kWord.size()));
  return stranger("the header Authorization is not \"Bearer\" and a token");
}

}  // namespace

Result<std::unique_ptr<People>> People::open(PeopleOptions options, Store& store) {
  if (!options.clock) options.clock = unix_now;
  auto tables = store.load_people();
  if (!tables) return tables.error();
  std::unique_ptr<People> people(new People(std::move(options), store, std::move(tables).value()));
  if (Status kept = people->keep_up(); !kept.ok()) return kept.error();
  return people;
}

People::People(PeopleOptions options, Store& store, PeopleTables tables)
    : options_(std::move(options)), store_(store) {
  const MutexLock guard(mutex_);
  for (const auto& token : tables.tokens) tokens_.emplace(token.id, token);
  for (const auto& session : tables.sessions) sessions_.emplace(session.id, session);
  audit_seq_ = tables.audit_seq;
}

void People::start_upkeep() {
  upkeep_ = std::jthread([this](const std::stop_token& stop) {
    while (sleep_unless_stopped(kUpkeepEvery, stop)) {
      if (Status kept = keep_up(); !kept.ok()) {
        spdlog::error("admin.token: {}", to_string(kept.error()));
      }
    }
  });
}

Status People::commit(PeopleRow row) {
  auto written = std::make_shared<std::promise<Status>>();
  auto done = written->get_future();
  store_.write_people({std::move(row)}, [written](Status s) { written->set_value(std::move(s)); });
  return done.get();  // the store answers every batch, also when its disk is full
}

// ---- who asks

Principal People::principal_of(const identity::ApiTokenRecord& token) const {
  return {token.owner, token.scopes, token.id, token.expires};
}

Result<Principal> People::of_token(std::string_view text) const {
  const auto token = identity::parse_api_token(text);
  if (!token) return stranger("this is not an API token: " + token.error().remedy);
  const auto found = tokens_.find(token->id);
  const auto* record = found == tokens_.end() ? nullptr : &found->second;
  const auto verdict = identity::check_api_token(record, token->secret, now());
  if (!verdict.ok()) return identity::to_error(verdict);
  return principal_of(*record);
}

const SessionRecord* People::session_of(std::string_view text) const {
  const auto words = identity::words_of_token(text, kSessionPrefix, 2);
  const auto id = words ? parse_id<SessionTag>((*words)[0]) : std::nullopt;
  if (!id) return nullptr;
  const auto found = sessions_.find(*id);
  if (found == sessions_.end()) return nullptr;
  return identity::is_secret_of((*words)[1], found->second.secret_hash) ? &found->second : nullptr;
}

Result<Principal> People::of_cookie(std::string_view cookie) const {
  const SessionRecord* session = session_of(cookie);
  if (session == nullptr)
    return stranger("this browser's login has ended, or belongs to another coordinator");
  if (now() >= session->expires) return stranger("this browser's login has expired");
  const auto token = tokens_.find(session->token);
  if (token == tokens_.end() || token->second.revoked)
    return stranger("the token of this browser's login was revoked");
  Principal principal = principal_of(token->second);
  principal.expires = session->expires;
  principal.session_hash = session->secret_hash;
  return principal;
}

Result<Principal> People::who(std::string_view authorization, std::string_view cookie) const {
  const std::string_view session = session_in(cookie);
  if (authorization.empty() && session.empty()) return stranger("the request has no token");
  if (authorization.empty()) {
    const MutexLock guard(mutex_);
    return of_cookie(session);
  }
  const auto token = bearer_of(authorization);
  if (!token) return token.error();
  const MutexLock guard(mutex_);
  return of_token(*token);
}

bool People::is_still(const Principal& principal) const {
  if (now() >= principal.expires) return false;
  const MutexLock guard(mutex_);
  const auto token = tokens_.find(principal.token);
  if (token == tokens_.end() || token->second.revoked) return false;
  if (principal.session_hash.empty()) return true;
  return std::ranges::any_of(sessions_, [&](const auto& entry) {
    return entry.second.secret_hash == principal.session_hash;
  });
}

// ---- browsers

// A free row; else the one that ends first.
SessionId People::place_for_session() const {
  const SessionRecord* first = nullptr;
  for (const auto& [id, session] : sessions_) {
    if (session.secret_hash.empty() || now() >= session.expires) return id;
    if (first == nullptr || session.expires < first->expires) first = &session;
  }
  if (sessions_.size() < kSessionsMost) return SessionId(sessions_.size() + 1);
  return first->id;
}

Result<NewSession> People::begin_session(Principal principal) {
  const std::string secret = identity::make_secret();
  principal.expires = std::min(principal.expires, now() + kSessionLife);
  principal.session_hash = identity::hash_of_secret(secret);
  SessionRecord session{.token = principal.token,
                        .secret_hash = principal.session_hash,
                        .expires = principal.expires};
  {
    const MutexLock guard(mutex_);
    session.id = place_for_session();
  }
  if (Status s = commit(session); !s.ok()) return s.error();
  const MutexLock guard(mutex_);
  sessions_.insert_or_assign(session.id, session);
  return NewSession{session_text(session.id, secret), std::move(principal)};
}

Result<NewSession> People::log_in(std::string_view token) {
  const MutexLock writing(writing_);
  Result<Principal> principal = [&]() -> Result<Principal> {
    const MutexLock guard(mutex_);
    return of_token(trimmed(token));
  }();
  if (!principal) return principal.error();
  return begin_session(std::move(principal).value());
}

Result<NewSession> People::log_in_with_ticket(std::string_view ticket) {
  const MutexLock writing(writing_);
  Result<Principal> principal = [&]() -> Result<Principal> {
    const MutexLock guard(mutex_);
    const auto found = std::ranges::find_if(tickets_, [&](const StoredTicket& stored) {
      return identity::is_secret_of(ticket, stored.hash);
    });
    const bool lasts = found != tickets_.end() && now() < found->expires;
    const auto token = lasts ? tokens_.find(found->token) : tokens_.end();
    if (found != tickets_.end()) tickets_.erase(found);
    if (token == tokens_.end() || token->second.revoked || now() >= token->second.expires) {
      return Error{Code::kUnauthenticated, "the link was used already, or is too old", "ticket",
                   "`shoal link` prints a new one, which works once within ten minutes"};
    }
    return principal_of(token->second);
  }();
  if (!principal) return principal.error();
  return begin_session(std::move(principal).value());
}

Result<Principal> People::log_out(std::string_view cookie) {
  const MutexLock writing(writing_);
  SessionRecord ended;
  Principal principal;
  {
    const MutexLock guard(mutex_);
    const std::string_view text = session_in(cookie);
    auto known = of_cookie(text);
    if (!known) return known.error();
    principal = std::move(known).value();
    ended = *session_of(text);
  }
  ended.secret_hash.clear();
  if (Status s = commit(ended); !s.ok()) return s.error();
  const MutexLock guard(mutex_);
  sessions_.insert_or_assign(ended.id, ended);
  return principal;
}

People::Ticket People::make_ticket(const Principal& principal) {
  const MutexLock guard(mutex_);
  std::string text = identity::make_secret();
  const Instant expires = std::min(now() + kTicketLife, principal.expires);
  if (tickets_.size() >= kTicketsMost) tickets_.pop_front();
  tickets_.push_back({identity::hash_of_secret(text), principal.token, expires});
  return {std::move(text), expires};
}

// ---- tokens

Result<People::NewToken> People::make_token(std::string_view name, identity::ScopeSet scopes,
                                            Duration life) {
  const identity::ApiTokenId id = [&] {
    const MutexLock guard(mutex_);
    return identity::ApiTokenId(tokens_.empty() ? 1 : tokens_.rbegin()->first.n + 1);
  }();
  auto made = identity::make_api_token(id, name, scopes, life, now());
  if (!made) return made.error();
  if (Status s = commit(made->record); !s.ok()) return s.error();
  const MutexLock guard(mutex_);
  tokens_.emplace(id, made->record);
  return NewToken{identity::to_string(made->token), made->record};
}

Result<People::NewToken> People::create_token(std::string_view name, identity::ScopeSet scopes,
                                              Duration life) {
  const MutexLock writing(writing_);
  const auto works = [&](const auto& entry) {
    return !entry.second.revoked && now() < entry.second.expires;
  };
  const auto working = [&] {
    const MutexLock guard(mutex_);
    return std::ranges::count_if(tokens_, works);
  }();
  if (working >= static_cast<std::ptrdiff_t>(kApiTokensMost)) {
    return Error{Code::kResourceExhausted,
                 std::to_string(kApiTokensMost) + " API tokens are valid already", "",
                 "revoke some: shoal token ls, shoal token rm"};
  }
  return make_token(name, scopes, life);
}

std::vector<identity::ApiTokenRecord> People::tokens() const {
  const MutexLock guard(mutex_);
  std::vector<identity::ApiTokenRecord> all;
  for (const auto& [id, token] : tokens_) all.push_back(token);
  return all;
}

Result<identity::ApiTokenRecord> People::revoke_token(identity::ApiTokenId token) {
  const MutexLock writing(writing_);
  identity::ApiTokenRecord changed;
  {
    const MutexLock guard(mutex_);
    const auto found = tokens_.find(token);
    if (found == tokens_.end() || found->second.revoked) {
      return Error{Code::kNotFound, "there is no token " + to_string(token) + " that is valid",
                   "token", "`shoal token ls` lists them"};
    }
    changed = found->second;
  }
  changed.revoked = true;
  if (Status s = commit(changed); !s.ok()) return s.error();
  const MutexLock guard(mutex_);
  tokens_.insert_or_assign(token, changed);
  return changed;
}

bool People::admin_token_lasts(const std::string& text) const {
  const MutexLock guard(mutex_);
  const auto principal = of_token(text);
  if (!principal || !principal->scopes.has(identity::Scope::kAdmin)) return false;
  return principal->expires - now() > identity::kApiTokenLifeMost / 3;
}

// Anyone who may read the data folder may do everything anyway (ca.pem): an admin that lost every
// token restarts the coordinator.
Status People::keep_up() {
  const MutexLock writing(writing_);
  const auto text = identity::read_token_file(admin_token_file());
  if (!text.ok() && text.error().code != Code::kNotFound) return text.error();
  if (text.ok() && admin_token_lasts(*text)) return {};
  auto made = make_token(kAdminName, {identity::Scope::kAdmin}, identity::kApiTokenLifeMost);
  if (!made) return made.error();
  return identity::write_private_file(admin_token_file(), made->text + "\n");
}

// ---- the audit trail

AuditRecord audit_of(const NoteDecision& decision) {
  const bool cordons = decision.kind == NoteDecision::Kind::kCordonDevice;
  const std::string device =
      decision.uuid.empty() ? "device " + std::to_string(decision.device) : decision.uuid;
  const std::string cordoned = "cordoned", in_service = "in service";
  return {.principal = kCoordinatorItself,
          .action = cordons ? "cordon_device" : "uncordon_device",
          .object = to_string(decision.agent) + "/" + device,
          .before = cordons ? in_service : cordoned,
          .after = (cordons ? cordoned : in_service) + ": " + decision.why};
}

void People::note(AuditRecord record, std::function<void(Status)> done) {
  record.at = now();
  {
    const MutexLock guard(mutex_);
    record.seq = ++audit_seq_;
  }
  store_.write_people({std::move(record)}, std::move(done));
}

}  // namespace shoal::coordinator
