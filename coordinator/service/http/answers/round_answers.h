// What people and programs read of rounds and of what their members contributed (views.h). An empty
// optional is null, as is 0 where the list says or_none(): not known yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/records/records.h"
#include "coordinator/service/http/message.h"

namespace shoal::coordinator::rest {

struct ContributionPhasesAnswer {
  std::optional<double> train_s;
  std::optional<double> stall_s;
  std::optional<double> wait_s;
  std::optional<double> reduce_s;
  std::optional<double> vote_s;
  std::optional<double> apply_s;
};
constexpr auto fields_of(Of<ContributionPhasesAnswer>) {
  using T = ContributionPhasesAnswer;
  return fields<&T::train_s, &T::stall_s, &T::wait_s, &T::reduce_s, &T::vote_s, &T::apply_s>();
}
constexpr const char* schema_name(Of<ContributionPhasesAnswer>) { return "ContributionPhases"; }

enum class AgentRole { kTrainer, kReducer, kRelay };
constexpr auto enumerators_of(Of<AgentRole>) {
  using enum AgentRole;
  return enumerators<AgentRole>({{kTrainer, "trainer"}, {kReducer, "reducer"}, {kRelay, "relay"}});
}

struct ContributionAnswer {
  ReplicaId replica;
  AgentId agent;
  StageIndex stage = 0;
  std::optional<std::int32_t> group;
  AgentRole role = AgentRole::kTrainer;
  ContributionState state = ContributionState::kTraining;
  std::optional<RejectReason> reject_reason;
  std::optional<Tokens> tokens;
  std::optional<Steps> steps;
  std::optional<Steps> skipped;
  std::optional<double> train_loss;
  std::optional<double> norm;
  std::optional<double> max_abs;
  std::optional<std::int64_t> nonfinite;
  std::optional<double> weight;
  std::optional<double> clip_factor;
  Digest digest;
  Digest anchor_digest;
  Bytes bytes_sent;
  Bytes bytes_received;
  ContributionPhasesAnswer phases;
};
constexpr auto fields_of(Of<ContributionAnswer>) {
  using T = ContributionAnswer;
  return fields(field<&T::replica>(), field<&T::agent>(or_none()), field<&T::stage>(added_later()),
                field<&T::group>(added_later()), field<&T::role>(added_later()), field<&T::state>(),
                field<&T::reject_reason>(), field<&T::tokens>(), field<&T::steps>(),
                field<&T::skipped>(added_later()), field<&T::train_loss>(or_none()),
                field<&T::norm>(), field<&T::max_abs>(), field<&T::nonfinite>(),
                field<&T::weight>(), field<&T::clip_factor>(), field<&T::digest>(or_none()),
                field<&T::anchor_digest>(or_none()), field<&T::bytes_sent>(),
                field<&T::bytes_received>(), field<&T::phases>());
}
constexpr const char* schema_name(Of<ContributionAnswer>) { return "Contribution"; }

struct ReduceAnswer {
  std::int32_t attempt = 0;
  Digest digest;
  Digest anchor_digest;
  Digest momentum_digest;
  std::optional<Topology> topology;
  bool given_up = false;
  std::optional<std::string> topology_reason;
  std::optional<bool> entropy_coding;
};
constexpr auto fields_of(Of<ReduceAnswer>) {
  using T = ReduceAnswer;
  return fields(field<&T::attempt>(), field<&T::digest>(or_none()),
                field<&T::anchor_digest>(or_none()), field<&T::momentum_digest>(or_none()),
                field<&T::topology>(added_later()), field<&T::given_up>(added_later()),
                field<&T::topology_reason>(added_later()),
                field<&T::entropy_coding>(added_later()));
}
constexpr const char* schema_name(Of<ReduceAnswer>) { return "Reduce"; }

struct RoundSecondsAnswer {
  std::optional<double> train;
  std::optional<double> reduce;
  std::optional<double> vote;
  std::optional<double> apply;
  std::optional<double> total;
};
constexpr auto fields_of(Of<RoundSecondsAnswer>) {
  using T = RoundSecondsAnswer;
  return fields<&T::train, &T::reduce, &T::vote, &T::apply, &T::total>();
}
constexpr const char* schema_name(Of<RoundSecondsAnswer>) { return "RoundSeconds"; }

struct RoundAnswer {
  RoundNumber round = 0;
  std::int64_t epoch = 0;
  RoundState state = RoundState::kOpen;
  std::int32_t attempt = 0;
  std::int32_t aborts = 0;
  std::optional<AbortReason> abort_reason;
  Steps from_step;
  Steps to_step;
  std::optional<double> outer_lr;
  std::optional<double> share;
  Digest digest;
  Digest anchor_digest;
  Digest momentum_digest;
  std::vector<ReduceAnswer> reduces;
  Instant opened_at;
  Instant frozen_at;
  Instant committed_at;
  RoundSecondsAnswer seconds;
  std::optional<double> compute_utilisation;
  Tokens tokens;
  double train_loss = 0;
  double validation_loss = 0;
  Bytes bytes_sent;
  Bytes bytes_received;
  std::vector<ContributionAnswer> contributions;
};
constexpr auto fields_of(Of<RoundAnswer>) {
  using T = RoundAnswer;
  return fields(field<&T::round>(), field<&T::epoch>(), field<&T::state>(), field<&T::attempt>(),
                field<&T::aborts>(), field<&T::abort_reason>(), field<&T::from_step>(),
                field<&T::to_step>(), field<&T::outer_lr>(), field<&T::share>(),
                field<&T::digest>(or_none()), field<&T::anchor_digest>(or_none()),
                field<&T::momentum_digest>(or_none()), field<&T::reduces>(added_later()),
                field<&T::opened_at>(or_none()), field<&T::frozen_at>(or_none()),
                field<&T::committed_at>(or_none()), field<&T::seconds>(),
                field<&T::compute_utilisation>(), field<&T::tokens>(),
                field<&T::train_loss>(or_none()), field<&T::validation_loss>(or_none()),
                field<&T::bytes_sent>(), field<&T::bytes_received>(), field<&T::contributions>());
}
constexpr const char* schema_name(Of<RoundAnswer>) { return "Round"; }

}  // namespace shoal::coordinator::rest
