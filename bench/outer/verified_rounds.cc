// See verified_rounds.h.
#include "bench/outer/verified_rounds.h"

#include <algorithm>
#include <cstring>

#include "base/prng.h"
#include "bench/reduce_in_memory.h"
#include "coordinator/core/decisions/audit.h"
#include "coordinator/core/decisions/options.h"
#include "coordinator/core/decisions/sent_norms.h"
#include "outer_opt/core/round/audit.h"
#include "outer_opt/core/round/clip.h"
#include "outer_opt/core/step/vector_statistics.h"

namespace shoal::bench {
namespace {

constexpr float kAttack = -10;

ReplicaId id_of(std::size_t member) { return ReplicaId(member + 1); }
std::size_t member_of(ReplicaId id) { return static_cast<std::size_t>(id.n) - 1; }

std::vector<outer_opt::ReduceInput> as_inputs(const std::vector<std::vector<float>>& vectors) {
  std::vector<outer_opt::ReduceInput> inputs;
  for (const std::vector<float>& values : vectors) inputs.push_back({values, {}});
  return inputs;
}

}  // namespace

// One round, over its attempts.
struct VerifiedRounds::Attempt {
  std::int64_t round = 0;
  std::int32_t number = 1;
  std::vector<double> norms;             // as reported
  std::vector<std::vector<float>> sent;  // by member; empty: it has no weight
  std::vector<bool> barred;              // owns nothing
  std::vector<outer_opt::Accusation> accusations;
  std::vector<PartSeen> seen;
  std::vector<float> average;
};

VerifiedRounds::VerifiedRounds(const LiarSetting& setting, std::size_t members, std::uint64_t seed)
    : setting_(setting), members_(members), seed_(seed), violations_(members), out_(members) {}

void VerifiedRounds::blame(std::size_t member, std::int64_t round, bool for_average) {
  const coordinator::Options usual;
  out_[member] = for_average || ++violations_[member] >= usual.quarantine_violations;
  std::int64_t& since = for_average ? named_.average : named_.norm;
  const bool right = setting_.lie && member == (for_average ? false_owner() : norm_liar());
  if (!right) ++named_.others;
  if (right && since == 0) since = round;
}

ReducePlan VerifiedRounds::plan_of(std::int64_t round, const Attempt& attempt) const {
  ReducePlan plan;
  plan.key = {JobId(1), 0, round};
  plan.attempt = attempt.number;
  plan.codec = setting_.codec;
  plan.frame_values = setting_.frame_values;
  plan.codes_own = setting_.verify && setting_.audit > 0;
  std::vector<double> norms, shares;
  for (std::size_t i = 0; i < members_; ++i) {
    if (attempt.sent[i].empty()) continue;
    plan.value_count = static_cast<std::int64_t>(attempt.sent[i].size());
    norms.push_back(attempt.norms[i]);
  }
  const std::vector<double> factors = outer_opt::clip_factors(norms);
  std::size_t next = 0;
  for (std::size_t i = 0; i < members_; ++i) {
    const bool counts = !attempt.sent[i].empty();
    const double factor = counts ? factors[next++] : 1;
    plan.members.push_back({id_of(i), "memory", counts ? 1.0 : 0.0, factor, 0, 0});
    shares.push_back(attempt.barred[i] ? 0 : 1);
  }
  assign_parts(plan, shares);
  return plan;
}

// What the false owner puts into its own part; nobody is sent that.
void VerifiedRounds::falsify(const ReducePlan& plan,
                             std::vector<std::vector<float>>& inputs) const {
  std::vector<float>& own = inputs[false_owner()];
  const ReduceMember& part = plan.members[false_owner()];
  if (!setting_.lie || own.empty()) return;
  const auto times = kAttack * static_cast<float>(members_ - 1);
  for (std::int64_t i = 0; i < part.part_count; ++i) {
    own[static_cast<std::size_t>(part.part_first + i)] *= times;
  }
}

std::vector<float> VerifiedRounds::first_average(const ReducePlan& plan, Attempt& attempt) {
  std::vector<std::vector<float>> inputs = attempt.sent;
  falsify(plan, inputs);
  Reduced reduced = reduce_in_memory(plan, as_inputs(inputs));
  attempt.seen = std::move(reduced.seen);
  return std::move(reduced.average);
}

bool VerifiedRounds::norms_hold(const ReducePlan& plan, Attempt& attempt) {
  coordinator::SentNormsInput input{plan.codec, plan.value_count, false, {}, attempt.accusations};
  for (std::size_t i = 0; i < members_; ++i) {
    input.members.push_back(
        {id_of(i), attempt.norms[i], plan.members[i].weight > 0, attempt.seen[i].squares});
  }
  const coordinator::SentNorms found = coordinator::judge_sent_norms(input);
  for (const coordinator::FalseNorm& one : found.lied) {
    blame(member_of(one.member), attempt.round, false);
    attempt.sent[member_of(one.member)].clear();
    attempt.barred[member_of(one.member)] = true;
  }
  for (const outer_opt::Accusation& one : found.alone) {
    attempt.accusations.push_back(one);
    attempt.barred[member_of(one.owner)] = true;
  }
  return found.lied.empty() && found.alone.empty();
}

std::vector<ReplicaId> VerifiedRounds::disputed(const ReducePlan& plan,
                                                const std::vector<AuditedRange>& audited,
                                                const Attempt& attempt) const {
  const ReducePlan audit = outer_opt::audit_plan(plan, audited);
  std::vector<std::vector<float>> inputs(members_);
  for (std::size_t i = 0; i < members_; ++i) {
    for (const AuditedRange& range : audited) {
      if (attempt.sent[i].empty()) continue;
      const auto from = attempt.sent[i].begin() + range.first;
      inputs[i].insert(inputs[i].end(), from, from + range.count);
    }
  }
  falsify(audit, inputs);
  const Reduced again = reduce_in_memory(audit, as_inputs(inputs));
  std::vector<ReplicaId> owners;
  std::size_t at = 0;
  for (const AuditedRange& range : audited) {
    const auto count = static_cast<std::size_t>(range.count);
    const float* first = &attempt.average[static_cast<std::size_t>(range.first)];
    const bool same = std::memcmp(first, &again.average[at], count * sizeof(float)) == 0;
    if (!same) owners.push_back(range.owner);
    at += count;
  }
  return owners;
}

bool VerifiedRounds::audits_hold(const ReducePlan& plan, Attempt& attempt) {
  const std::uint64_t seed = mix_seed(mix_seed(seed_, static_cast<std::uint64_t>(attempt.round)),
                                      static_cast<std::uint64_t>(attempt.number));
  std::vector<AuditedRange> audited = outer_opt::draw_audit(plan, setting_.audit, seed);
  coordinator::AuditInput input;
  while (!audited.empty()) {
    input.audited = audited;
    input.disputed.assign(members_, disputed(plan, audited, attempt));
    const coordinator::AuditDecision decision = coordinator::judge_audit(input);
    if (decision.verdict == coordinator::AuditVerdict::kConfirmed) return true;
    if (decision.verdict == coordinator::AuditVerdict::kFalse) {
      blame(member_of(decision.named), attempt.round, true);
      attempt.sent[member_of(decision.named)].clear();
      attempt.barred[member_of(decision.named)] = true;
      return false;
    }
    input.suspects = {decision.owner, decision.second};
    audited = outer_opt::ask_third(plan, audited, decision.owner, seed);
  }
  return true;
}

std::vector<float> VerifiedRounds::average(
    std::int64_t round, const std::vector<std::span<const float>>& pseudo_gradients) {
  Attempt attempt{.round = round, .barred = out_};
  for (std::size_t i = 0; i < members_; ++i) {
    const auto& own = pseudo_gradients[i];
    attempt.sent.emplace_back(own.begin(), own.end());
    attempt.norms.push_back(outer_opt::statistics_of(own).norm);
  }
  if (setting_.lie) {
    std::vector<double> honest(attempt.norms.begin(), attempt.norms.end() - 1);
    attempt.norms[norm_liar()] = outer_opt::median(std::move(honest));
    for (float& value : attempt.sent[norm_liar()]) value *= kAttack;
  }
  for (std::size_t i = 0; i < members_; ++i) {
    if (out_[i]) attempt.sent[i].clear();
  }
  for (const coordinator::Options usual; attempt.number <= usual.attempts_max; ++attempt.number) {
    const ReducePlan plan = plan_of(round, attempt);
    attempt.average = first_average(plan, attempt);
    const bool sound =
        !setting_.verify || (norms_hold(plan, attempt) && audits_hold(plan, attempt));
    if (sound) return std::move(attempt.average);
  }
  return std::vector<float>(pseudo_gradients[0].size());
}

}  // namespace shoal::bench
