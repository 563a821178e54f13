// The registry of machines: owns the cluster's CA, the join tokens and the machines that joined,
// and keeps the coordinator's own certificate fresh. The rules are in admission.h; rows are in the
// store, keys in files of mode 0600 in the data folder:
//
//   ca.pem        the CA: key, certificate, and during a rotation what came before it
//   tls/          the coordinator's certificate (server_files.h)
//   join_token    a token for agents on this host, which may read the folder anyway
//
// Threads: all methods may be called by any thread. Those that write wait until the rows are
// durable.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "coordinator/service/machines/admission.h"
#include "coordinator/service/machines/server_files.h"
#include "coordinator/store/store.h"
#include "identity/tls_context.h"
#include "threads/mutex.h"

namespace shoal::coordinator {

struct MachinesOptions {
  std::string folder;    // the data folder
  std::string given_ca;  // a file with certificate and key, for a new cluster; empty: one is made
  std::vector<std::string> hosts;                    // further names and addresses of this host
  Duration certificate_life = identity::kAgentLife;  // of agents
  std::function<Instant()> clock;                    // null: the system's
};

inline constexpr std::size_t kRevokedMost = 1'000;
inline constexpr std::size_t kTokensMost = 1'000;  // that still work
// Life of the token for this host's own agents, which is replaced in time.
inline constexpr Duration kLocalTokenLife = identity::kJoinLifeMost;

// What an agent gets: PEM, its own certificate first, and the roots it must trust.
struct IssuedCertificate {
  AgentId machine;
  std::string cluster, chain, roots;
};

// Asks for a new certificate with an old one, which may have expired (identity/renewal.h).
struct Renewal {
  std::string chain;    // PEM
  std::string request;  // CSR of the same key, PEM
  std::string proof;    // prove_old_key(), raw
  Instant clock;        // of the host
};

// One CA, as people see it.
struct AuthorityView {
  AuthorityRecord record;
  Instant expires;
  std::int64_t machines = 0;  // with a certificate of it that still counts
};

class Machines {
 public:
  // Loads or makes everything. Errors name the file and the remedy: a CA that is lost or another
  // one's, a key that others can read. `store` must outlive it.
  static Result<std::unique_ptr<Machines>> open(MachinesOptions options, Store& store);
  ~Machines();

  // Called without a lock when a machine was revoked: end its sessions. Once, before the first
  // revocation.
  void on_revoked(std::function<void(AgentId)> end_sessions);
  // Called without a lock with each rotation, which fails where this does: rotate what else is
  // secret. Once, before the first rotation.
  void on_rotated(std::function<Status()> rotate);
  // Renews the coordinator's certificate and this host's token in time, on a thread of its own.
  void start_upkeep();
  Status keep_up();  // what that thread does each time

  // ---- tokens
  // Errors: validation, field "uses" or "ttl"; resource_exhausted at kTokensMost.
  Result<std::string> create_token(std::int64_t uses, Duration life);
  std::vector<identity::JoinTokenRecord> tokens() const;
  Status remove_token(identity::JoinTokenId token);  // not_found

  // ---- machines
  Result<IssuedCertificate> enrol(const Enrolment& asked);
  Result<IssuedCertificate> renew(const Renewal& asked);
  // For a replica that this machine trains: short, and not kept. Errors: field "csr".
  Result<IssuedCertificate> certify(const identity::ReplicaName& replica,
                                    const std::string& request) const;
  // `certificate` is PEM, as the handshake saw it; empty: none was shown. `why`, if given, is
  // set with an error.
  Result<Caller> admit(const std::string& certificate, RefusalReason* why = nullptr) const;
  // The folder of a session is the one of its certificate. A machine that the store has forgotten
  // (it was restored from a backup) is known again from here on.
  Status admit_folder(const Caller& caller, const std::string& uid, const std::string& name);
  // not_found: it has no certificate; conflict: it is revoked already.
  Status revoke(AgentId machine);
  bool is_revoked(AgentId machine) const;
  // Revoked agents whose replicas may still have a valid certificate: the newest kRevokedMost.
  std::vector<AgentId> recently_revoked() const;

  // ---- CAs
  Status rotate();  // conflict while the rotation before is not over
  std::vector<AuthorityView> authorities() const;
  std::string cluster() const { return cluster_.text; }

  // For servers that ask for no client certificate. The context is current as of this call.
  std::shared_ptr<boost::asio::ssl::context> open_tls() const;
  ServerFiles files() const { return server_files(options_.folder); }
  Instant now() const { return options_.clock(); }

 private:
  Machines(MachinesOptions options, Store& store, identity::ClusterName cluster,
           identity::Authority authority, MachineTables tables, const Snapshot& before);
  Status complete_rotation() SHOAL_EXCLUDES(mutex_);
  Status issue_own() SHOAL_REQUIRES(mutex_);
  Status keep_local_token() SHOAL_REQUIRES(mutex_);
  Status commit(std::vector<MachineRow> rows) SHOAL_REQUIRES(mutex_);
  Result<identity::NewJoinToken> make_token(std::int64_t uses, Duration life)
      SHOAL_REQUIRES(mutex_);
  Result<IssuedCertificate> issue(const identity::SigningRequest& request, MachineRecord machine,
                                  std::vector<MachineRow> rows) SHOAL_REQUIRES(mutex_);
  IssuedCertificate with_chain(AgentId machine, const identity::Certificate& issued) const
      SHOAL_REQUIRES(mutex_);

  const MachinesOptions options_;
  Store& store_;
  const identity::ClusterName cluster_;
  std::function<void(AgentId)> end_sessions_;
  std::function<Status()> rotate_others_;

  mutable Mutex mutex_;
  identity::Authority authority_ SHOAL_GUARDED_BY(mutex_);
  std::vector<AuthorityRecord> authorities_ SHOAL_GUARDED_BY(mutex_);
  Registry registry_ SHOAL_GUARDED_BY(mutex_);
  Instant renew_own_at_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<boost::asio::ssl::context> open_tls_ SHOAL_GUARDED_BY(mutex_);
  std::jthread upkeep_;  // last: it uses the others
};

}  // namespace shoal::coordinator
