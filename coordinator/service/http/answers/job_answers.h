// What people and programs read of a job (views.h). An empty optional is null, as is 0 where the
// list says or_none(): not known yet.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/records/job_record.h"
#include "coordinator/service/http/message.h"

namespace shoal::coordinator::rest {

struct JobProgressAnswer {
  std::int64_t inner_step = 0;
  std::int64_t inner_steps_total = 0;
  std::int64_t rounds_committed = 0;
  std::int64_t rounds_total = 0;
  Tokens tokens;
  Tokens tokens_committed;
  std::optional<double> tokens_per_second;
  std::int64_t replicas_training = 0;
};
constexpr auto fields_of(Of<JobProgressAnswer>) {
  using T = JobProgressAnswer;
  return fields(field<&T::inner_step>(), field<&T::inner_steps_total>(),
                field<&T::rounds_committed>(), field<&T::rounds_total>(or_none()),
                field<&T::tokens>(), field<&T::tokens_committed>(), field<&T::tokens_per_second>(),
                field<&T::replicas_training>());
}
constexpr const char* schema_name(Of<JobProgressAnswer>) { return "JobProgress"; }

struct JobStageAnswer {
  std::int32_t first_unit = 0;
  std::int32_t end_unit = 0;
  std::int64_t parameters = 0;
  Digest anchor_digest;
  Digest momentum_digest;
  std::int64_t copies = 0;
  std::optional<RoundNumber> copied_round;
};
constexpr auto fields_of(Of<JobStageAnswer>) {
  using T = JobStageAnswer;
  return fields(field<&T::first_unit>(), field<&T::end_unit>(), field<&T::parameters>(or_none()),
                field<&T::anchor_digest>(or_none()), field<&T::momentum_digest>(or_none()),
                field<&T::copies>(added_later()), field<&T::copied_round>(added_later()));
}

struct JobStatusAnswer {
  JobPhase phase = JobPhase::kQueued;
  JobDesired desired = JobDesired::kRun;
  JobReason reason = JobReason::kNone;
  std::string detail;
  JobProgressAnswer progress;
  double outer_lr = 0;
  double train_loss = 0;
  double validation_loss = 0;
  std::optional<RoundNumber> validation_round;
  Bytes bytes_sent;
  std::optional<std::int64_t> bytes_ddp;
  std::int64_t parameters = 0;
  Digest anchor_digest;
  Digest momentum_digest;
  std::vector<JobStageAnswer> stages;
  std::int64_t epoch = 0;
  Instant started_at;
  Instant committed_at;
  Instant finished_at;
  std::vector<std::string> not_run_by;
  std::int64_t priority = 0;
  std::optional<JobId> yields_to;
};
constexpr auto fields_of(Of<JobStatusAnswer>) {
  using T = JobStatusAnswer;
  return fields(field<&T::phase>(), field<&T::desired>(), field<&T::reason>(), field<&T::detail>(),
                field<&T::progress>(), field<&T::outer_lr>(), field<&T::train_loss>(or_none()),
                field<&T::validation_loss>(or_none()), field<&T::validation_round>(),
                field<&T::bytes_sent>(), field<&T::bytes_ddp>(), field<&T::parameters>(or_none()),
                field<&T::anchor_digest>(or_none()), field<&T::momentum_digest>(or_none()),
                field<&T::stages>(), field<&T::epoch>(), field<&T::started_at>(or_none()),
                field<&T::committed_at>(or_none()), field<&T::finished_at>(or_none()),
                field<&T::not_run_by>(added_later()), field<&T::priority>(added_later()),
                field<&T::yields_to>(added_later()));
}
constexpr const char* schema_name(Of<JobStatusAnswer>) { return "JobStatus"; }

struct JobAnswer {
  JobId id;
  std::string name;
  Instant created_at;
  Instant updated_at;
  JobSpec spec;
  JobStatusAnswer status;
  std::string owner;
  std::string description;
};
constexpr auto fields_of(Of<JobAnswer>) {
  using T = JobAnswer;
  return fields(field<&T::id>(), field<&T::name>(), field<&T::created_at>(or_none()),
                field<&T::updated_at>(or_none()), field<&T::spec>(), field<&T::status>(),
                field<&T::owner>(added_later()), field<&T::description>(added_later()));
}
constexpr const char* schema_name(Of<JobAnswer>) { return "Job"; }

}  // namespace shoal::coordinator::rest
