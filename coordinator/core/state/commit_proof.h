// Signatures of commit records: HMAC-SHA-256 under keys that only the coordinator has. Members keep
// a signed record with the state that they hold and return both in Hello. A coordinator whose
// database is older than its cluster continues from such records, and believes no other claim about
// the past: without a valid signature for the very agent and replica that return it, a Hello
// creates, adopts, advances and fails nothing.
//
// The code covers the record, the job's name, owner, priority and specification, the replica, its
// agent and, once they are known, the digests after the outer step (CommitProof in round.h). Fields
// at their defaults are left out of the signed text, so that a version with more fields verifies
// what an older one has signed.
#pragma once

#include <string>
#include <vector>

#include "base/flat_map.h"
#include "base/sha256.h"
#include "coordinator/core/state/state.h"

namespace shoal::coordinator {

// What the signatures of this process share: the key, set up once, and of every job the hash of its
// specification and cut. Not thread-safe.
class RecordSigner {
 public:
  explicit RecordSigner(const RecordKey& key) : key_id_(key.id), hmac_(key.secret) {}

  const std::string& key_id() const { return key_id_; }
  std::string code_of(std::string_view text) { return hmac_.of(text); }
  const std::string& spec_sha256(const JobRecord& job);

 private:
  struct Hashed {
    std::vector<UnitRange> cut;  // empty until the model is cut; the specification never changes
    std::string sha256;
  };

  std::string key_id_;
  HmacSha256 hmac_;
  FlatMap<JobId, Hashed> specs_;
};

// From now on the newest of these signs.
void use_record_keys(VolatileState& process, RecordKeys keys);

// The record of the job's committed state, signed for one replica after another.
class SignedRecords {
 public:
  // `record` is commit_record() of the job, or that with other holders of momentum. Unsigned where
  // the state has no key.
  SignedRecords(const State& state, const JobRecord& job, CommitRecord record);
  CommitRecord of(ReplicaId replica) const;

 private:
  const State& state_;
  const JobRecord& job_;
  CommitRecord record_;  // without a proof
  std::string record_sha256_;
};

// commit_record() of the replica's job, signed for it.
CommitRecord signed_record(const State& state, const JobRecord& job, ReplicaId replica);

enum class ProofVerdict {
  kGood,
  kUnsigned,      // of a member of protocol 4, or of one that has not heard of the commit's digests
  kOtherCluster,  // signed with the key of another cluster
  kUnknownKey,    // signed with a key of this cluster that is not here
  kForged,        // the code is not that of these fields
  kOtherMember,   // issued to another agent or another replica
  kOtherJob,      // its specification or cut is another one
  kOtherState,    // another anchor, momentum or length than the signed one
};
constexpr auto enumerators_of(Of<ProofVerdict>) {
  using enum ProofVerdict;
  return enumerators<ProofVerdict>({{kGood, "good"},
                                    {kUnsigned, "unsigned"},
                                    {kOtherCluster, "other_cluster"},
                                    {kUnknownKey, "unknown_key"},
                                    {kForged, "forged"},
                                    {kOtherMember, "other_member"},
                                    {kOtherJob, "other_job"},
                                    {kOtherState, "other_state"}});
}

// The code under this key of a record and the fields of its proof.
std::string code_of(const RecordKey& key, const CommitRecord& record);

// What the claim of this agent is worth.
ProofVerdict check_proof(const RecordKeys& keys, AgentId agent, const HeldReplica& held);

// What is wrong and what to do, for an event: "its record is signed with …".
std::string explain(ProofVerdict verdict, const RecordKeys& keys, const CommitProof& proof);

}  // namespace shoal::coordinator
