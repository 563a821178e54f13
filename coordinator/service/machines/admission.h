// The rules of who becomes a machine of the cluster, who renews and who is let in, as pure
// decisions over what the store keeps. machines.h owns the tables, the CA and the files, and asks
// these.
//
// Threads: may be called by any thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "coordinator/store/machine_rows.h"
#include "identity/authority.h"
#include "identity/peer.h"

namespace shoal::coordinator {

// What is known of machines and tokens, by id.
struct Registry {
  std::map<identity::JoinTokenId, identity::JoinTokenRecord> tokens;
  std::map<AgentId, MachineRecord> machines;
  std::map<std::string, AgentId> agents_before;  // by uid: known to the core, and no machine yet
  std::uint64_t next_machine = 1;                // ids are never given out again
  identity::Revocations revoked() const;
  const MachineRecord* of_uid(const std::string& uid) const;
};

// What a host says that wants to join.
struct Enrolment {
  std::string token;    // text of a join token
  std::string request;  // CSR, PEM
  std::string uid;      // of its data folder: 32 hex digits
  std::string name;
  Instant clock;  // of the host
};

// Clocks that differ more are refused, with the difference: certificates would not count.
inline constexpr Duration kClockOffMost = identity::kBackdate;
// Code validation, field "clock".
Status check_clock(Instant theirs, Instant ours);

// The machine to give a certificate. `counts`: it is a new machine, and one use of the token.
struct Admission {
  AgentId machine;
  identity::JoinTokenId token;
  bool counts = true;
};
// A host whose answer was lost asks again with the same key: it is the same machine, at no further
// use. Errors: unauthenticated or invalid_argument, field "token": unknown, expired, used up,
// revoked, of another CA; conflict, field "uid": another machine has this folder's uid, or it was
// revoked.
Result<Admission> decide_enrolment(const Registry& registry, const identity::Roots& roots,
                                   const Enrolment& asked, const identity::SigningRequest& request,
                                   Instant now);

// A caller, identified by the certificate of the handshake.
struct Caller {
  AgentId machine;
  std::string key_hash;  // of its key
  std::string uid;       // of its folder; empty: the registry does not know the machine
};
// Errors: those of verify_peer(); unauthenticated, field "certificate": revoked, or another machine
// has its id, which happens after the state was restored from a backup. `why`, if given, is set
// with an error.
Result<Caller> decide_caller(const Registry& registry, const identity::Certificate& certificate,
                             const identity::Roots& roots, const identity::ClusterName& cluster,
                             Instant now, RefusalReason* why = nullptr);

// A session's Hello names the folder that its certificate was given for. Code permission_denied,
// field "uid".
Status check_folder(const Caller& caller, const std::string& uid);

}  // namespace shoal::coordinator
