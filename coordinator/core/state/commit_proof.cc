#include "coordinator/core/state/commit_proof.h"

#include <bit>
#include <charconv>
#include <iterator>
#include <type_traits>
#include <utility>

#include "base/sha256.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

// ---- the signed text of a struct with a list of fields

template <typename T>
void write(std::string& out, const T& value);

template <typename Number>
void write_number(std::string& out, Number value) {
  char digits[24];
  out.append(digits, std::to_chars(std::begin(digits), std::end(digits), value).ptr);
}

void write_text(std::string& out, std::string_view text) {
  write_number(out, text.size());
  out.append(":").append(text);
}

template <typename T>
void write_list(std::string& out, const T& list) {
  out += '[';
  for (const auto& entry : list) {
    write(out, entry);
    out += ',';
  }
  out += ']';
}

template <typename T>
void write_field(std::string& out, const FieldInfo& field, const T& member) {
  out.append(field.name).append("=");
  write(out, member);
  out += ';';
}

// All fields that are not at their defaults.
template <typename T, auto... kMembers>
void write_fields(std::string& out, const FieldList<kMembers...>& list, const T& value) {
  static const T usual{};
  const FieldInfo* field = list.info;
  ((value.*kMembers == usual.*kMembers ? void() : write_field(out, *field, value.*kMembers),
    ++field),
   ...);
}

template <typename T>
void write(std::string& out, const T& value) {
  if constexpr (std::is_enum_v<T>) {
    write_text(out, to_string(value));
  } else if constexpr (std::is_same_v<T, Digest>) {
    out += to_hex(value);
  } else if constexpr (HasFields<T>) {
    out += '{';
    write_fields(out, kFields<T>, value);
    out += '}';
  } else if constexpr (requires { value.n; }) {  // ids, units
    write_number(out, value.n);
  } else if constexpr (requires { value.ns; }) {  // times
    write_number(out, value.ns);
  } else if constexpr (std::is_same_v<T, double>) {
    write_number(out, std::bit_cast<std::uint64_t>(value));
  } else if constexpr (std::is_integral_v<T>) {
    write_number(out, static_cast<std::int64_t>(value));
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    write_text(out, value);
  } else if constexpr (requires { value.has_value(); }) {
    if (value) write(out, *value);
    if (!value) out += '-';
  } else if constexpr (requires {
                         value.first;
                         value.second;
                       }) {
    write(out, value.first);
    out += '|';
    write(out, value.second);
  } else {
    write_list(out, value);
  }
}

template <typename T>
std::string signed_text(const T& value) {
  std::string text;
  write(text, value);
  return text;
}

// ---- what is signed

// Without the name: a restored job may have to take another one.
std::string spec_sha256(const JobSpec& spec, const std::vector<UnitRange>& cut) {
  return sha256_of(signed_text(with_derived_fields(for_agents(spec))) + signed_text(cut));
}

// `record` has no proof, and `proof` no code yet.
std::string record_sha256(const CommitRecord& record) { return sha256_of(signed_text(record)); }
std::string text_to_sign(const CommitProof& proof, const std::string& record_sha256) {
  return "shoal commit 1\n" + record_sha256 + signed_text(proof);
}

// The digests that the replica's record proves: none before they are known. In groups each replica
// has an anchor of its own.
void name_state(CommitProof& proof, const State& state, const JobRecord& job,
                const ReplicaRecord& replica) {
  const auto stages = job.stages.size();
  if (averages_in_groups(job)) {
    if (replica.held_round != job.committed_round || !replica.anchor) return;
    proof.anchors.resize(stages), proof.momenta.resize(stages);
    proof.anchors.at(static_cast<std::size_t>(replica.stage)) = replica.anchor;
    proof.momenta.at(static_cast<std::size_t>(replica.stage)) = replica.momentum;
    return;
  }
  if (!anchors_known(job)) return;
  for (const JobStage& stage : job.stages) {
    proof.anchors.push_back(stage.anchor);
    proof.momenta.push_back(stage.momentum);
  }
}

bool is_signed_state(const CommitProof& proof, const HeldReplica& held) {
  if (held.value_count != proof.value_count && proof.value_count != 0) return false;
  const auto stage = static_cast<std::size_t>(held.stage);
  if (proof.anchors.empty()) return true;
  if (stage >= proof.anchors.size() || stage >= proof.momenta.size()) return false;
  return held.anchor == proof.anchors[stage] && held.momentum == proof.momenta[stage];
}

}  // namespace

const std::string& RecordSigner::spec_sha256(const JobRecord& job) {
  Hashed& known = specs_[job.id];
  std::vector<UnitRange> cut = cut_of(job);
  if (known.sha256.empty() || known.cut != cut) {
    known = {cut, shoal::coordinator::spec_sha256(job.spec, cut)};
  }
  return known.sha256;
}

void use_record_keys(VolatileState& process, RecordKeys keys) {
  process.record_keys = std::move(keys);
  process.signer = process.record_keys.empty()
                       ? nullptr
                       : std::make_shared<RecordSigner>(process.record_keys.back());
}

SignedRecords::SignedRecords(const State& state, const JobRecord& job, CommitRecord record)
    : state_(state), job_(job), record_(std::move(record)) {
  record_.proof = {};
  if (state.signer) record_sha256_ = record_sha256(record_);
}

CommitRecord SignedRecords::of(ReplicaId id) const {
  CommitRecord record = record_;
  if (!state_.signer) return record;
  const ReplicaRecord& replica = state_.replicas.at(id);
  CommitProof& proof = record.proof;
  proof.job_name = job_.spec.name;
  proof.owner = job_.owner;
  proof.priority = job_.priority;
  proof.spec_sha256 = state_.signer->spec_sha256(job_);
  proof.agent = replica.agent;
  proof.replica = id;
  proof.value_count = stage_of(job_, replica.stage).value_count;
  name_state(proof, state_, job_, replica);
  proof.key_id = state_.signer->key_id();
  proof.mac = state_.signer->code_of(text_to_sign(proof, record_sha256_));
  return record;
}

CommitRecord signed_record(const State& state, const JobRecord& job, ReplicaId replica) {
  return SignedRecords(state, job, commit_record(state, job)).of(replica);
}

std::string code_of(const RecordKey& key, const CommitRecord& record) {
  CommitRecord bare = record;
  CommitProof proof = std::exchange(bare.proof, {});
  proof.mac.clear();
  return HmacSha256(key.secret).of(text_to_sign(proof, record_sha256(bare)));
}

ProofVerdict check_proof(const RecordKeys& keys, AgentId agent, const HeldReplica& held) {
  using enum ProofVerdict;
  const CommitProof& proof = held.record.proof;
  if (proof.mac.empty() || keys.empty()) return kUnsigned;
  const RecordKey* key = find_key(keys, proof.key_id);
  if (key == nullptr) {
    const bool own = cluster_of_key(proof.key_id) == cluster_of_key(keys.back().id);
    return own ? kUnknownKey : kOtherCluster;
  }
  if (!same_code(code_of(*key, held.record), proof.mac)) return kForged;
  const bool mine = proof.agent == agent && proof.replica == held.replica;
  if (!mine) return kOtherMember;
  const bool same_job = held.record.key.job == held.job && held.record.key == held.key;
  if (!same_job || proof.spec_sha256 != spec_sha256(held.spec, held.cut)) return kOtherJob;
  return is_signed_state(proof, held) ? kGood : kOtherState;
}

std::string explain(ProofVerdict verdict, const RecordKeys& keys, const CommitProof& proof) {
  switch (verdict) {
    case ProofVerdict::kGood:
      return "its record is signed for it";
    case ProofVerdict::kUnsigned:
      return "its record is not signed, as those of agents before 0.2.0: upgrade that agent, and "
             "the "
             "job continues from its newest checkpoint meanwhile";
    case ProofVerdict::kOtherCluster:
      return "its record is signed by the cluster " + std::string(cluster_of_key(proof.key_id)) +
             ", this is " + std::string(cluster_of_key(keys.back().id)) +
             ": remove the data folder of that agent, or let it join its own cluster";
    case ProofVerdict::kUnknownKey:
      return "its record is signed with the record key " + proof.key_id +
             (number_of_key(proof.key_id) > number_of_key(keys.back().id)
                  ? ", which is newer than this backup: copy record_keys.json of the lost "
                    "coordinator, or of a newer backup, into the data folder and restart"
                  : ", which was retired: no live replica held such a record any more");
    case ProofVerdict::kForged:
      return "the signature of its record is false: somebody changed it, so revoke that agent "
             "unless its disk or memory is known to be damaged";
    case ProofVerdict::kOtherMember:
      return "its record was issued to " + to_string(proof.replica) + " of " +
             to_string(proof.agent) + ": revoke that agent unless its data folder was copied";
    case ProofVerdict::kOtherJob:
      return "its record is of another job, round or specification than the one it returns";
    case ProofVerdict::kOtherState:
      return "it holds another state than the one that was committed";
  }
  return "";
}

}  // namespace shoal::coordinator
