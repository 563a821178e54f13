#include "coordinator/service/machines/admission.h"

#include <algorithm>

#include "base/text.h"

namespace shoal::coordinator {
namespace {

constexpr const char* kJoinAnew =
    "stop the agent, delete agent_id and machine.* in its --data-dir, and join with a new token: "
    "shoal token create --join";

Error refused(std::string message, std::string field) {
  return {Code::kUnauthenticated, std::move(message), std::move(field), kJoinAnew};
}

Status check_token_ca(const identity::JoinToken& token, const identity::Roots& roots) {
  const bool ours = std::ranges::any_of(
      roots, [&](const auto& root) { return root.certificate.fingerprint() == token.ca; });
  if (ours) return {};
  return Error{Code::kUnauthenticated,
               "the join token is for another cluster, or for an earlier CA", "token",
               "make a new one on this coordinator: shoal token create --join"};
}

}  // namespace

identity::Revocations Registry::revoked() const {
  identity::Revocations all;
  for (const auto& [id, machine] : machines) {
    if (machine.revoked_at.ns != 0) all.agents.insert(id);
  }
  return all;
}

const MachineRecord* Registry::of_uid(const std::string& uid) const {
  for (const auto& [id, machine] : machines) {
    if (machine.uid == uid) return &machine;
  }
  return nullptr;
}

Status check_clock(Instant theirs, Instant ours) {
  const bool fast = theirs > ours;
  const Duration off = fast ? theirs - ours : ours - theirs;
  if (off <= kClockOffMost) return {};
  return Error{Code::kValidation,
               "the clock of this host is " + identity::to_words(off) +
                   (fast ? " ahead of" : " behind") + " the coordinator's",
               "clock", "set the clocks of both hosts, for example with chrony"};
}

Result<Admission> decide_enrolment(const Registry& registry, const identity::Roots& roots,
                                   const Enrolment& asked, const identity::SigningRequest& request,
                                   Instant now) {
  const auto token = identity::parse_join_token(asked.token);
  if (!token) return token.error();
  if (Status ours = check_token_ca(*token, roots); !ours.ok()) return ours.error();
  if (Status clock = check_clock(asked.clock, now); !clock.ok()) return clock.error();
  if (!is_hex(asked.uid, 32)) {
    return Error{Code::kInvalidArgument, "must be 32 lower-case hex digits", "uid", ""};
  }
  const auto found = registry.tokens.find(token->id);
  const auto* record = found == registry.tokens.end() ? nullptr : &found->second;
  const identity::JoinVerdict verdict = identity::redeem(record, token->secret, now);
  const MachineRecord* known = registry.of_uid(asked.uid);
  const bool same_key =
      known != nullptr && known->key_hash == identity::to_hex(request.key_fingerprint());
  const bool may_repeat = verdict.ok() || verdict.reason == identity::JoinReason::kUsedUp;
  if (!verdict.ok() && !(same_key && may_repeat)) return identity::to_error(verdict);
  if (known != nullptr && known->revoked_at.ns != 0) {
    return Error{Code::kConflict, "agent " + known->name + " of this folder was revoked", "uid",
                 kJoinAnew};
  }
  if (same_key) return Admission{known->id, token->id, false};
  if (known != nullptr) {
    return Error{Code::kConflict,
                 "agent " + known->name + " joined with this folder and another key", "uid",
                 kJoinAnew};
  }
  const auto before = registry.agents_before.find(asked.uid);
  const bool was_agent = before != registry.agents_before.end();
  return Admission{was_agent ? before->second : AgentId(registry.next_machine), token->id, true};
}

Result<Caller> decide_caller(const Registry& registry, const identity::Certificate& certificate,
                             const identity::Roots& roots, const identity::ClusterName& cluster,
                             Instant now, RefusalReason* why) {
  const identity::ExpectedPeer expected{.cluster = cluster, .kind = identity::PeerKind::kAgent};
  const auto verdict =
      identity::verify_peer({certificate}, roots, registry.revoked(), now, expected);
  if (why != nullptr) *why = identity::reason_of(verdict.fault);
  if (!verdict.ok()) return identity::to_error(verdict, expected);
  Caller caller{
      identity::agent_of(*verdict.name), identity::to_hex(certificate.key_fingerprint()), {}};
  const auto known = registry.machines.find(caller.machine);
  if (known == registry.machines.end()) return caller;
  if (known->second.key_hash != caller.key_hash) {
    if (why != nullptr) *why = RefusalReason::kRevoked;
    return refused(to_string(caller.machine) + " is another machine" +
                       " since this cluster was restored from a backup",
                   "certificate");
  }
  caller.uid = known->second.uid;
  return caller;
}

Status check_folder(const Caller& caller, const std::string& uid) {
  if (caller.uid.empty() || caller.uid == uid) return {};
  return Error{Code::kPermissionDenied,
               "the certificate is of " + to_string(caller.machine) +
                   ", whose data folder has a different uid",
               "uid", kJoinAnew};
}

}  // namespace shoal::coordinator
