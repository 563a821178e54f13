#include "coordinator/service/machines/machines.h"

#include <algorithm>
#include <future>

#include <spdlog/spdlog.h>

#include "identity/private_file.h"
#include "identity/renewal.h"
#include "threads/clock.h"
#include "threads/sleep.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kUpkeepEvery = seconds(60);
// Ids that were given out after a backup was made are not given out again (restoring.cc has the
// same rule for the core's).
constexpr std::uint64_t kIdsSkipped = 1000;

std::string ca_path(const std::string& folder) { return folder + "/ca.pem"; }

const AuthorityRecord* issuing(const std::vector<AuthorityRecord>& all) {
  const auto found =
      std::ranges::find_if(all, [](const auto& record) { return record.until.ns == 0; });
  return found == all.end() ? nullptr : &*found;
}

bool is_root(const identity::Authority& authority, const identity::Hash256& known, Instant now) {
  return std::ranges::any_of(authority.roots(now), [&](const auto& root) {
    return root.certificate.fingerprint() == known;
  });
}

// The CA that an operator gives to a new cluster; one that it has already is the same.
Result<identity::Authority> take_given(const MachinesOptions& options,
                                       const identity::ClusterName& cluster,
                                       const std::optional<identity::Hash256>& known, Instant now) {
  auto pem = identity::read_private_file(options.given_ca);
  if (!pem) return pem.error();
  auto given = identity::Authority::given(*pem, *pem, cluster, now);
  if (!given) return given.error();
  if (known && given->fingerprint() != *known) {
    return Error{Code::kConflict, "this cluster has another CA already", "--ca",
                 "leave the flag out; `shoal ca rotate` replaces the CA"};
  }
  if (known) return identity::Authority::load(ca_path(options.folder), cluster);
  if (Status saved = given->save(ca_path(options.folder)); !saved.ok()) return saved.error();
  return given;
}

// A rotation writes the file first. An interrupted one is recognized by the former root in the
// file.
Result<identity::Authority> load_authority(const MachinesOptions& options,
                                           const identity::ClusterName& cluster,
                                           const std::optional<identity::Hash256>& known,
                                           Instant now) {
  if (!options.given_ca.empty()) return take_given(options, cluster, known, now);
  if (known) {
    auto loaded = identity::Authority::load(ca_path(options.folder), cluster);
    if (loaded && is_root(*loaded, *known, now)) return loaded;
  }
  return identity::Authority::load_or_make(ca_path(options.folder), cluster, known, now);
}

}  // namespace

Result<std::unique_ptr<Machines>> Machines::open(MachinesOptions options, Store& store) {
  if (!options.clock) options.clock = unix_now;
  auto tables = store.load_machines();
  if (!tables) return tables.error();
  auto before = store.load();
  if (!before) return before.error();
  const AuthorityRecord* record = issuing(tables->authorities);
  const identity::ClusterName cluster =
      record == nullptr ? identity::make_cluster_name() : identity::ClusterName{record->cluster};
  const auto known = record == nullptr ? std::nullopt : identity::parse_hash(record->fingerprint);
  auto authority = load_authority(options, cluster, known, options.clock());
  if (!authority) return authority.error();
  std::unique_ptr<Machines> machines(new Machines(std::move(options), store, cluster,
                                                  std::move(authority).value(),
                                                  std::move(tables).value(), *before));
  if (Status s = machines->complete_rotation(); !s.ok()) return s.error();
  if (Status s = machines->keep_up(); !s.ok()) return s.error();
  return machines;
}

Machines::Machines(MachinesOptions options, Store& store, identity::ClusterName cluster,
                   identity::Authority authority, MachineTables tables, const Snapshot& before)
    : options_(std::move(options)),
      store_(store),
      cluster_(std::move(cluster)),
      authority_(std::move(authority)),
      authorities_(std::move(tables.authorities)) {
  const MutexLock guard(mutex_);
  for (const auto& token : tables.tokens) registry_.tokens.emplace(token.id, token);
  for (const AgentRecord& agent : before.agents)
    registry_.agents_before.emplace(agent.uid, agent.id);
  registry_.next_machine = before.counters.next_agent;
  if (before.counters.backup_at.ns != 0) registry_.next_machine += kIdsSkipped;
  for (const MachineRecord& machine : tables.machines) {
    registry_.next_machine = std::max(registry_.next_machine, machine.id.n + 1);
    registry_.machines.emplace(machine.id, machine);
  }
}

Machines::~Machines() = default;

void Machines::on_revoked(std::function<void(AgentId)> end_sessions) {
  end_sessions_ = std::move(end_sessions);
}

void Machines::on_rotated(std::function<Status()> rotate) { rotate_others_ = std::move(rotate); }

void Machines::start_upkeep() {
  upkeep_ = std::jthread([this](const std::stop_token& stop) {
    while (sleep_unless_stopped(kUpkeepEvery, stop)) {
      if (Status kept = keep_up(); !kept.ok()) {
        spdlog::error("certificates: {}", to_string(kept.error()));
      }
    }
  });
}

Status Machines::keep_up() {
  const MutexLock guard(mutex_);
  if (open_tls_ == nullptr || now() >= renew_own_at_) {
    if (Status s = issue_own(); !s.ok()) return s;
  }
  return keep_local_token();
}

Status Machines::issue_own() {
  auto own = issue_server_files(authority_, options_.folder, options_.hosts, now());
  if (!own) return own.error();
  renew_own_at_ = now() + (own->certificate.not_after() - now()) / 2;
  auto context =
      identity::make_tls_context(identity::OpenServer{std::move(own).value()}, options_.clock);
  if (!context) return context.error();
  open_tls_ = std::move(context).value();
  return {};
}

std::shared_ptr<boost::asio::ssl::context> Machines::open_tls() const {
  const MutexLock guard(mutex_);
  return open_tls_;
}

Status Machines::commit(std::vector<MachineRow> rows) {
  auto written = std::make_shared<std::promise<Status>>();
  auto done = written->get_future();
  store_.write_machines(std::move(rows), [written](Status s) { written->set_value(std::move(s)); });
  return done.get();  // the store answers every batch, also when its disk is full
}

// ---- tokens

Result<identity::NewJoinToken> Machines::make_token(std::int64_t uses, Duration life) {
  const std::uint64_t last = registry_.tokens.empty() ? 0 : registry_.tokens.rbegin()->first.n;
  auto made = identity::make_join_token(identity::JoinTokenId(last + 1), authority_.fingerprint(),
                                        uses, life, now());
  if (!made) return made.error();
  if (Status s = commit({made->record}); !s.ok()) return s.error();
  registry_.tokens.emplace(made->record.id, made->record);
  return made;
}

Result<std::string> Machines::create_token(std::int64_t uses, Duration life) {
  const MutexLock guard(mutex_);
  const auto works = [&](const auto& entry) {
    const identity::JoinTokenRecord& token = entry.second;
    return !token.revoked && token.uses < token.uses_most && now() < token.expires;
  };
  if (std::ranges::count_if(registry_.tokens, works) >= static_cast<std::ptrdiff_t>(kTokensMost)) {
    return Error{Code::kResourceExhausted,
                 std::to_string(kTokensMost) + " join tokens are valid already", "",
                 "remove some: shoal token ls, shoal token rm"};
  }
  auto made = make_token(uses, life);
  if (!made) return made.error();
  return identity::to_string(made->token);
}

// Anyone who may read the data folder may be an agent: `shoal up` and agents beside the coordinator
// need no further step.
Status Machines::keep_local_token() {
  const std::string path = options_.folder + "/join_token";
  const auto text = identity::read_token_file(path);
  if (!text.ok() && text.error().code != Code::kNotFound) return text.error();
  const auto token =
      text.ok() ? identity::parse_join_token(*text) : Result<identity::JoinToken>(text.error());
  if (token.ok() && token->ca == authority_.fingerprint()) {
    const auto known = registry_.tokens.find(token->id);
    const bool works = known != registry_.tokens.end() &&
                       identity::redeem(&known->second, token->secret, now()).ok();
    if (works && known->second.expires - now() > kLocalTokenLife / 3) return {};
  }
  auto made = make_token(identity::kJoinUsesMost, kLocalTokenLife);
  if (!made) return made.error();
  return identity::write_private_file(path, identity::to_string(made->token) + "\n");
}

std::vector<identity::JoinTokenRecord> Machines::tokens() const {
  const MutexLock guard(mutex_);
  std::vector<identity::JoinTokenRecord> all;
  for (const auto& [id, token] : registry_.tokens) all.push_back(token);
  return all;
}

Status Machines::remove_token(identity::JoinTokenId token) {
  const MutexLock guard(mutex_);
  const auto found = registry_.tokens.find(token);
  if (found == registry_.tokens.end() || found->second.revoked) {
    return Error{Code::kNotFound, "there is no join token " + to_string(token), "token",
                 "`shoal token ls` lists them"};
  }
  identity::JoinTokenRecord changed = found->second;
  changed.revoked = true;
  if (Status s = commit({changed}); !s.ok()) return s;
  found->second = changed;
  return {};
}

// ---- machines

Result<IssuedCertificate> Machines::issue(const identity::SigningRequest& request,
                                          MachineRecord machine, std::vector<MachineRow> rows) {
  auto issued = authority_.issue_agent(request, machine.id, now(), options_.certificate_life);
  if (!issued) return issued.error();
  machine.serial = issued->serial();
  machine.authority = identity::to_hex(authority_.fingerprint());
  machine.expires_at = issued->not_after();
  rows.emplace_back(machine);
  if (Status s = commit(std::move(rows)); !s.ok()) return s.error();
  registry_.next_machine = std::max(registry_.next_machine, machine.id.n + 1);
  registry_.machines.insert_or_assign(machine.id, machine);
  return with_chain(machine.id, *issued);
}

IssuedCertificate Machines::with_chain(AgentId machine, const identity::Certificate& issued) const {
  std::vector<identity::Certificate> chain = {issued};
  for (const auto& each : authority_.chain(now())) chain.push_back(each);
  std::string roots;
  for (const auto& root : authority_.roots(now())) roots += root.certificate.pem();
  return {machine, cluster_.text, identity::to_pem(chain), std::move(roots)};
}

Result<IssuedCertificate> Machines::certify(const identity::ReplicaName& replica,
                                            const std::string& request) const {
  const auto parsed = identity::SigningRequest::parse(request);
  if (!parsed) return parsed.error();
  const MutexLock guard(mutex_);
  const auto issued = authority_.issue_replica(*parsed, replica, now());
  if (!issued) return issued.error();
  return with_chain(replica.agent, *issued);
}

Result<IssuedCertificate> Machines::enrol(const Enrolment& asked) {
  const auto request = identity::SigningRequest::parse(asked.request);
  if (!request) return request.error();
  const MutexLock guard(mutex_);
  const auto admitted =
      decide_enrolment(registry_, authority_.roots(now()), asked, *request, now());
  if (!admitted) return admitted.error();
  if (!admitted->counts) return issue(*request, registry_.machines.at(admitted->machine), {});
  identity::JoinTokenRecord token = registry_.tokens.at(admitted->token);
  ++token.uses;
  MachineRecord machine{.id = admitted->machine,
                        .uid = asked.uid,
                        .name = asked.name,
                        .key_hash = identity::to_hex(request->key_fingerprint()),
                        .enrolled_at = now()};
  auto issued = issue(*request, std::move(machine), {token});
  if (issued) registry_.tokens.at(token.id) = token;
  return issued;
}

Result<IssuedCertificate> Machines::renew(const Renewal& asked) {
  const auto request = identity::SigningRequest::parse(asked.request);
  if (!request) return request.error();
  auto chain = identity::Certificate::parse_chain(asked.chain);
  if (!chain) return chain.error();
  const MutexLock guard(mutex_);
  if (Status clock = check_clock(asked.clock, now()); !clock.ok()) return clock.error();
  const identity::ReturnClaim claim{*chain, *request, asked.proof};
  const auto verdict =
      identity::decide_return(claim, authority_.roots(now()), registry_.revoked(), cluster_, now());
  if (!verdict.ok()) return identity::to_error(verdict, cluster_);
  const std::string key_hash = identity::to_hex(request->key_fingerprint());
  MachineRecord machine{.id = verdict.agent, .key_hash = key_hash, .enrolled_at = now()};
  const auto known = registry_.machines.find(verdict.agent);
  if (known != registry_.machines.end()) machine = known->second;
  if (machine.key_hash != key_hash) {
    return Error{Code::kUnauthenticated, "the request is not made with the machine's key", "csr",
                 "a machine keeps its key; to change it, let it join again with a new token"};
  }
  return issue(*request, std::move(machine), {});
}

Result<Caller> Machines::admit(const std::string& certificate, RefusalReason* why) const {
  if (why != nullptr) {
    *why = certificate.empty() ? RefusalReason::kNoCertificate : RefusalReason::kMalformed;
  }
  if (certificate.empty()) {
    return Error{Code::kUnauthenticated, "this agent shows no certificate", "certificate",
                 "upgrade shoal-agent on its host, and let it join with --join-token"};
  }
  const auto parsed = identity::Certificate::parse(certificate);
  if (!parsed) return parsed.error();
  const MutexLock guard(mutex_);
  return decide_caller(registry_, *parsed, authority_.roots(now()), cluster_, now(), why);
}

Status Machines::admit_folder(const Caller& caller, const std::string& uid,
                              const std::string& name) {
  if (Status same = check_folder(caller, uid); !same.ok()) return same;
  if (!caller.uid.empty()) return {};
  const MutexLock guard(mutex_);
  const auto known = registry_.machines.find(caller.machine);
  MachineRecord machine{.id = caller.machine, .key_hash = caller.key_hash, .enrolled_at = now()};
  if (known != registry_.machines.end()) machine = known->second;
  machine.uid = uid;
  machine.name = name;
  if (Status s = commit({machine}); !s.ok()) return s;
  registry_.next_machine = std::max(registry_.next_machine, machine.id.n + 1);
  registry_.machines.insert_or_assign(machine.id, machine);
  return {};
}

Status Machines::revoke(AgentId machine) {
  {
    const MutexLock guard(mutex_);
    const auto found = registry_.machines.find(machine);
    if (found == registry_.machines.end()) {
      return Error{Code::kNotFound, to_string(machine) + " has no certificate", "agent",
                   "`shoal agent drain` takes it out of service"};
    }
    if (found->second.revoked_at.ns != 0) {
      return Error{Code::kConflict, to_string(machine) + " is revoked already", "agent", ""};
    }
    MachineRecord changed = found->second;
    changed.revoked_at = now();
    if (Status s = commit({changed}); !s.ok()) return s;
    found->second = changed;
  }
  if (end_sessions_) end_sessions_(machine);
  return {};
}

bool Machines::is_revoked(AgentId machine) const {
  const MutexLock guard(mutex_);
  const auto found = registry_.machines.find(machine);
  return found != registry_.machines.end() && found->second.revoked_at.ns != 0;
}

std::vector<AgentId> Machines::recently_revoked() const {
  const MutexLock guard(mutex_);
  const Instant since = now() - identity::kReplicaLife - identity::kBackdate;
  std::vector<const MachineRecord*> revoked;
  for (const auto& [id, machine] : registry_.machines) {
    if (machine.revoked_at > since) revoked.push_back(&machine);
  }
  std::ranges::sort(revoked, std::ranges::greater(), &MachineRecord::revoked_at);
  std::vector<AgentId> ids;
  for (const MachineRecord* machine : revoked) {
    if (ids.size() < kRevokedMost) ids.push_back(machine->id);
  }
  return ids;
}

// ---- CAs

// The rows after the file: those of a first start, and of a rotation.
Status Machines::complete_rotation() {
  const MutexLock guard(mutex_);
  const std::string own = identity::to_hex(authority_.fingerprint());
  const AuthorityRecord* before = issuing(authorities_);
  if (before != nullptr && before->fingerprint == own) return {};
  std::vector<MachineRow> rows;
  for (AuthorityRecord& record : authorities_) {
    if (record.until.ns != 0) continue;
    record.until = now();
    for (const auto& root : authority_.roots(now())) {
      if (identity::to_hex(root.certificate.fingerprint()) == record.fingerprint)
        record.until = root.until;
    }
    rows.emplace_back(record);
  }
  authorities_.push_back({own, cluster_.text, now(), {}});
  rows.emplace_back(authorities_.back());
  return commit(std::move(rows));
}

Status Machines::rotate() {
  {
    const MutexLock guard(mutex_);
    if (authority_.roots(now()).size() > 1) {
      return Error{Code::kConflict, "the previous CA is still trusted", "",
                   "`shoal ca ls` says until when; rotate again after that"};
    }
    auto next =
        authority_.rotated(identity::Authority::make(cluster_, now()), identity::kOverlap, now());
    if (!next) return next.error();
    if (Status saved = next->save(ca_path(options_.folder)); !saved.ok()) return saved;
    authority_ = std::move(next).value();
  }
  if (Status s = complete_rotation(); !s.ok()) return s;
  if (Status s = rotate_others_ ? rotate_others_() : Status(); !s.ok()) return s;
  const MutexLock guard(mutex_);
  if (Status s = issue_own(); !s.ok()) return s;
  return keep_local_token();
}

std::vector<AuthorityView> Machines::authorities() const {
  const MutexLock guard(mutex_);
  std::vector<AuthorityView> views;
  const identity::Roots roots = authority_.roots(now());
  for (const AuthorityRecord& record : authorities_) {
    AuthorityView view{.record = record, .expires = record.until};
    for (const auto& root : roots) {
      if (identity::to_hex(root.certificate.fingerprint()) == record.fingerprint)
        view.expires = root.until;
    }
    for (const auto& [id, machine] : registry_.machines) {
      view.machines += machine.authority == record.fingerprint && machine.revoked_at.ns == 0 &&
                       machine.expires_at > now();
    }
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace shoal::coordinator
