#include "coordinator/core/rounds/verification.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "base/prng.h"
#include "coordinator/core/decisions/audit.h"
#include "coordinator/core/decisions/sent_norms.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/agents.h"
#include "coordinator/core/state/naming.h"
#include "coordinator/core/state/round_facts.h"

namespace shoal::coordinator {
namespace {

void tell(Transaction& tx, const RoundKey& key, ReplicaId replica, const std::string& what) {
  tx.event(Severity::kWarning, event_kind::kMemberDistrusted,
           {.job = key.job,
            .agent = tx.state().contributions.at({key, replica}).agent,
            .replica = replica,
            .round = key.round},
           "round " + std::to_string(key.round) + ": " + what);
}

void bar(Transaction& tx, const RoundKey& key, ReduceIndex reduce, ReplicaId replica) {
  std::vector<ReplicaId>& barred = reduce_at(tx.round(key), reduce).barred;
  if (std::ranges::count(barred, replica) == 0) barred.push_back(replica);
}

// Nothing of it counts in this round.
void distrust(Transaction& tx, const RoundKey& key, ReduceIndex reduce, ReplicaId replica,
              RejectReason reason) {
  ContributionRecord& contribution = tx.contribution(key, replica);
  contribution.weight = 0;
  contribution.reject_reason = reason;
  bar(tx, key, reduce, replica);
  record_violation(tx, contribution.agent, reason);
}

std::string times_text(const FalseNorm& found) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3g, and others got at least %.3g", found.reported,
                found.sent);
  return text.data();
}

// ---- norms

SentNormsInput sent_norms_input(const State& state, const RoundKey& key, ReduceIndex reduce) {
  const Reduce& record = reduce_at(state.rounds.at(key), reduce);
  const ReducePlan plan = averaging_plan_of(state, key, reduce);
  SentNormsInput input{
      plan.codec, plan.value_count, plan.topology == Topology::kAllgather, {}, record.accusations};
  for (const ReduceMember& member : plan.members) {
    const ContributionRecord& contribution = state.contributions.at({key, member.replica});
    input.members.push_back(
        {member.replica, sent_norm(contribution.report), member.weight > 0, contribution.squares});
  }
  return input;
}

// Whether a part of this member can be given to somebody else, who is none of these two.
bool others_can_own(const State& state, const RoundKey& key, ReduceIndex reduce,
                    const outer_opt::Accusation& accusation) {
  const Reduce& record = reduce_at(state.rounds.at(key), reduce);
  return std::ranges::any_of(members_of(state, key, reduce), [&](ReplicaId id) {
    const ContributionRecord& member = state.contributions.at({key, id});
    return member.part_count > 0 && id != accusation.owner && id != accusation.member &&
           std::ranges::count(record.barred, id) == 0;
  });
}

void hear_alone(Transaction& tx, const RoundKey& key, ReduceIndex reduce,
                const outer_opt::Accusation& accusation) {
  const auto [owner, member] = accusation;
  const std::string said = display_name(tx.state(), owner) + " says that " +
                           display_name(tx.state(), member) + " sent more than it reported; ";
  if (others_can_own(tx.state(), key, reduce, accusation)) {
    tell(tx, key, owner, said + "one of the two is wrong, and the next attempt asks others");
    bar(tx, key, reduce, owner);
    reduce_at(tx.round(key), reduce).accusations.push_back(accusation);
    return;
  }
  tell(tx, key, owner,
       said + "no other member can tell, and the next attempt goes without " +
           display_name(tx.state(), member));
  ContributionRecord& contribution = tx.contribution(key, member);
  contribution.weight = 0;
  contribution.reject_reason = RejectReason::kUnverified;
  bar(tx, key, reduce, member);  // or it could become the only owner, which no other checks
}

// Whether a silent reducer could know something that no other owner knows: about a member that sent
// to no other owner, or that another owner has accused.
bool wants_words_of_reducers(const State& state, const RoundKey& key, ReduceIndex reduce) {
  if (!reduce_at(state.rounds.at(key), reduce).accusations.empty()) return true;
  std::size_t heard = 0;  // owners that train
  for (const ReplicaId id : members_of(state, key, reduce)) {
    const ContributionRecord& member = state.contributions.at({key, id});
    heard += !member.reducer && member.part_count > 0;
  }
  return heard < 2;  // one of them would have none but its own word
}

// Until when the reducers that have not said what they were sent are waited for.
std::optional<Instant> words_due(const Transaction& tx, const RoundKey& key, ReduceIndex reduce) {
  if (!wants_words_of_reducers(tx.state(), key, reduce)) return std::nullopt;
  Instant last;
  bool silent = false;
  for (const ReplicaId id : members_of(tx.state(), key, reduce)) {
    const ContributionRecord& member = tx.state().contributions.at({key, id});
    const bool voted = member.state == ContributionState::kVoted;
    if (voted && !member.reducer) last = std::max(last, member.voted_at);
    silent |= !voted && member.reducer && member.part_count > 0 && is_present(tx.state(), id);
  }
  const Instant due = last + tx.options().failure_grace;
  return silent && tx.now() < due ? std::optional(due) : std::nullopt;
}

bool norms_hold(Transaction& tx, const RoundKey& key, ReduceIndex reduce) {
  const SentNorms found = judge_sent_norms(sent_norms_input(tx.state(), key, reduce));
  for (const FalseNorm& one : found.lied) {
    tell(tx, key, one.member,
         display_name(tx.state(), one.member) + " reported a norm of " + times_text(one) +
             "; the next attempt goes without it");
    distrust(tx, key, reduce, one.member, RejectReason::kFalseNorm);
  }
  for (const outer_opt::Accusation& one : found.alone) hear_alone(tx, key, reduce, one);
  return found.lied.empty() && found.alone.empty();
}

// ---- audits

// Nobody can know it before everybody has voted: it is the time of the last vote.
std::uint64_t seed_of(const Transaction& tx, const RoundKey& key, std::int32_t attempt) {
  const std::uint64_t moment =
      mix_seed(static_cast<std::uint64_t>(tx.now().ns), static_cast<std::uint64_t>(key.round));
  return mix_seed(moment, static_cast<std::uint64_t>(attempt));
}

bool all_present(const State& state, const RoundKey& key, ReduceIndex reduce) {
  return std::ranges::all_of(members_of(state, key, reduce),
                             [&](ReplicaId id) { return is_present(state, id); });
}

Verification draw(Transaction& tx, const RoundKey& key, ReduceIndex reduce) {
  const Reduce& record = reduce_at(tx.state().rounds.at(key), reduce);
  if (record.drawn_for == record.attempt) return {};
  reduce_at(tx.round(key), reduce).drawn_for = record.attempt;
  const double share = audit_share(tx.state().jobs.at(key.job).spec);
  if (share == 0 || !all_present(tx.state(), key, reduce)) return {};
  const std::uint64_t seed = seed_of(tx, key, record.attempt);
  auto ranges = outer_opt::draw_audit(averaging_plan_of(tx.state(), key, reduce), share, seed);
  if (ranges.empty()) return {};
  return {Verdict::kAudit, {}, std::move(ranges), {}};
}

AuditInput audit_input(const State& state, const RoundKey& key, ReduceIndex reduce) {
  const Reduce& record = reduce_at(state.rounds.at(key), reduce);
  AuditInput input{record.audited, record.suspects, {}};
  for (const ReplicaId id : members_of(state, key, reduce)) {
    const ContributionRecord& member = state.contributions.at({key, id});
    const bool says = !member.reducer && member.state == ContributionState::kVoted;
    if (says) input.disputed.push_back(member.disputed);
  }
  return input;
}

Verification ask_third(Transaction& tx, const RoundKey& key, ReduceIndex reduce,
                       const AuditDecision& decision) {
  Reduce& record = reduce_at(tx.round(key), reduce);
  const ReducePlan plan = averaging_plan_of(tx.state(), key, reduce);
  const std::uint64_t seed = seed_of(tx, key, record.attempt);
  auto ranges = outer_opt::ask_third(plan, record.audited, decision.owner, seed);
  const std::string differ = display_name(tx.state(), decision.owner) + " and " +
                             display_name(tx.state(), decision.second) +
                             " made different averages of the same frames; ";
  record.suspects = {decision.owner, decision.second};
  if (!ranges.empty() && all_present(tx.state(), key, reduce)) {
    tell(tx, key, decision.owner,
         differ + display_name(tx.state(), ranges.front().second) + " decides");
    return {Verdict::kAudit, {}, std::move(ranges), {}};
  }
  tell(tx, key, decision.owner, differ + "no other member can decide, and neither averages again");
  for (const ReplicaId replica : record.suspects) bar(tx, key, reduce, replica);
  return {Verdict::kVoid, AttemptReason::kFalseAverage, {}, {}};
}

Verification end_audit(Transaction& tx, const RoundKey& key, ReduceIndex reduce) {
  const AuditDecision decision = judge_audit(audit_input(tx.state(), key, reduce));
  if (decision.verdict == AuditVerdict::kConfirmed) return {};
  if (decision.verdict == AuditVerdict::kAskThird) return ask_third(tx, key, reduce, decision);
  tell(tx, key, decision.named,
       display_name(tx.state(), decision.named) +
           " averaged falsely: two others made another average; the next attempt goes without it");
  distrust(tx, key, reduce, decision.named, RejectReason::kFalseAverage);
  return {Verdict::kVoid, AttemptReason::kFalseAverage, {}, {}};
}

}  // namespace

Verification verify(Transaction& tx, const RoundKey& key, ReduceIndex reduce) {
  if (averages_in_groups(tx.state().jobs.at(key.job))) return {};
  const bool audits = !reduce_at(tx.state().rounds.at(key), reduce).audited.empty();
  if (audits) return end_audit(tx, key, reduce);
  if (const auto due = words_due(tx, key, reduce)) return {Verdict::kWait, {}, {}, *due};
  if (!norms_hold(tx, key, reduce)) return {Verdict::kVoid, AttemptReason::kFalseNorm, {}, {}};
  return draw(tx, key, reduce);
}

}  // namespace shoal::coordinator
