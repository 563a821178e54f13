// What the store keeps of who takes part: the CAs of the cluster, join tokens and machines. These
// rows are not of the core's state: its digest does not see them, and no rule of a job reads them.
// Their owner is the registry (coordinator/service/machines/machines.h).
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"
#include "base/time.h"
#include "identity/join_token.h"

namespace shoal::coordinator {

struct AuthorityRecord {
  std::string fingerprint;  // identity::Hash256 as hex
  std::string cluster;
  Instant since;
  Instant until;  // trusted until then; 0: it is the one that issues
  bool operator==(const AuthorityRecord&) const = default;
};
constexpr auto fields_of(Of<AuthorityRecord>) {
  using T = AuthorityRecord;
  return fields<&T::fingerprint, &T::cluster, &T::since, &T::until>();
}

// One host's agent. It keeps its id, its key and its folder's uid; certificates come and go.
struct MachineRecord {
  AgentId id;
  std::string uid;        // of its data folder, 32 hex digits
  std::string name;       // as it was when it joined
  std::string key_hash;   // of its public key, as hex
  std::string serial;     // of its newest certificate
  std::string authority;  // fingerprint of the CA that issued that
  Instant enrolled_at;
  Instant expires_at;  // of its newest certificate
  Instant revoked_at;  // 0: it is not
  bool operator==(const MachineRecord&) const = default;
};
constexpr auto fields_of(Of<MachineRecord>) {
  using T = MachineRecord;
  return fields<&T::id, &T::uid, &T::name, &T::key_hash, &T::serial, &T::authority, &T::enrolled_at,
                &T::expires_at, &T::revoked_at>();
}

using MachineRow = std::variant<AuthorityRecord, identity::JoinTokenRecord, MachineRecord>;

struct MachineTables {
  std::vector<AuthorityRecord> authorities;
  std::vector<identity::JoinTokenRecord> tokens;
  std::vector<MachineRecord> machines;
};

}  // namespace shoal::coordinator
