#include "coordinator/core/decisions/options.h"

#include <string>
#include <utility>

namespace shoal::coordinator {

std::vector<FieldError> validate(const Options& options) {
  std::vector<FieldError> errors;
  const auto require = [&](bool holds, const char* pointer, std::string detail) {
    if (!holds) errors.push_back({pointer, std::move(detail)});
  };
  const auto positive = [&](Duration value, const char* pointer) {
    require(value.ns > 0, pointer, "must be above 0 seconds");
  };
  positive(options.heartbeat_every, "/heartbeat_every");
  positive(options.reconnect_grace, "/reconnect_grace");
  require(options.measure_limit.ns >= 0, "/measure_limit", "must not be negative");
  require(options.preempt_after.ns >= 0, "/preempt_after", "must not be negative");
  positive(options.load_limit, "/load_limit");
  require(options.return_grace.ns >= 0, "/return_grace", "must not be negative");
  require(options.rollback_wait_min.ns >= 0, "/rollback_wait_min", "must not be negative");
  require(options.rollback_wait_max.ns >= 0, "/rollback_wait_max", "must not be negative");
  positive(options.straggler_min, "/straggler_min");
  require(options.join_again_first.ns > 0 && options.join_again_first <= options.join_again_cap,
          "/join_again_first", "must be above 0 and at most join_again_cap");
  require(options.join_grace.ns >= 0, "/join_grace", "must not be negative");
  positive(options.close_limit, "/close_limit");
  positive(options.failure_grace, "/failure_grace");
  positive(options.apply_limit, "/apply_limit");
  positive(options.evaluation_limit, "/evaluation_limit");
  positive(options.checkpoint_limit, "/checkpoint_limit");
  positive(options.transfer_limit, "/transfer_limit");
  positive(options.step_limit, "/step_limit");
  require(options.first_step_limit >= options.step_limit, "/first_step_limit",
          "must be at least step_limit");
  require(options.step_factor >= 1, "/step_factor", "must be at least 1");
  positive(options.checkpoint_backoff, "/checkpoint_backoff");
  positive(options.replica_backoff, "/replica_backoff");
  require(options.replica_backoff_max >= options.replica_backoff, "/replica_backoff_max",
          "must be at least replica_backoff");
  require(options.rest_awaited.ns >= 0, "/rest_awaited", "must not be negative");
  require(options.device_failures_max >= 1, "/device_failures_max", "must be at least 1");
  positive(options.rebalance_every, "/rebalance_every");
  positive(options.quarantine_window, "/quarantine_window");
  positive(options.quarantine_first, "/quarantine_first");
  require(options.quarantine_cap >= options.quarantine_first, "/quarantine_cap",
          "must be at least quarantine_first");
  require(options.quarantine_forgotten >= options.quarantine_window, "/quarantine_forgotten",
          "must be at least quarantine_window");
  require(options.quarantine_violations >= 1, "/quarantine_violations", "must be at least 1");
  require(options.outlier_factor > 1, "/outlier_factor", "must be above 1");
  require(options.outlier_members_min >= 3, "/outlier_members_min", "must be at least 3");
  require(options.lease >= options.heartbeat_every * 2, "/lease",
          "must be at least two heartbeats, or one late heartbeat loses an agent");
  require(options.boot_grace >= options.reconnect_grace, "/boot_grace",
          "must be at least reconnect_grace");
  require(options.reduce_limit_min >= options.failure_grace * 2, "/reduce_limit_min",
          "must be at least twice failure_grace, or attempts end before a failure can be judged");
  require(options.reduce_bytes_per_s > 0, "/reduce_bytes_per_s", "must be above 0");
  require(options.quorum_grace >= 0 && options.quorum_grace <= 1, "/quorum_grace",
          "must be from 0 to 1");
  require(options.straggler_factor >= 0, "/straggler_factor", "must not be negative");
  require(options.attempts_max >= 1, "/attempts_max", "must be at least 1");
  require(options.failures_in_row_max >= 1, "/failures_in_row_max", "must be at least 1");
  require(options.copies_max >= Bytes(), "/copies_max", "must not be negative");
  require(options.checkpoints_max >= Bytes(), "/checkpoints_max", "must not be negative");
  require(options.keep_ended.ns >= 0, "/keep_ended", "must not be negative");
  require(options.jobs_max >= 1, "/jobs_max", "must be at least 1");
  require(options.quotas.each >= 0, "/quotas", "must not be negative");
  for (const auto& [owner, devices] : options.quotas.of)
    require(devices >= 0, "/quotas", "must not be negative");
  require(options.agents_max >= 1, "/agents_max", "must be at least 1");
  return errors;
}

}  // namespace shoal::coordinator
