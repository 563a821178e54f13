// What an agent must be told before it starts, checked once: every mistake is named, not the first
// one only.
#include <algorithm>

#include "agent/core/agent.h"
#include "base/text.h"

namespace shoal::agent {
namespace {

void check_identity(const Options& options, std::vector<FieldError>& errors) {
  if (!is_hex(options.uid, 32)) errors.push_back({"/uid", "must be 32 lower-case hex characters"});
  if (options.name.empty()) errors.push_back({"/name", "must not be empty"});
  if (options.data_dir.empty()) errors.push_back({"/data_dir", "must not be empty"});
  if (options.devices.empty() != options.only_relays)
    errors.push_back(
        {"/devices", "must name at least one device, and none where the host only relays"});
  for (std::size_t i = 0; i < options.devices.size(); ++i) {
    if (options.devices[i].index != static_cast<std::int32_t>(i)) {
      errors.push_back({"/devices", "must be numbered 0, 1, … in order"});
      return;
    }
  }
  const auto is_one = [&](std::int32_t number) {
    return number >= 0 && static_cast<std::size_t>(number) < options.devices.size();
  };
  const bool all = !options.devices.empty() && options.vacant.size() >= options.devices.size();
  if (all || !std::ranges::all_of(options.vacant, is_one))
    errors.push_back({"/vacant", "must be numbers of devices, and leave one"});
}

void check_times(const Options& options, std::vector<FieldError>& errors) {
  const std::pair<const char*, Duration> times[] = {
      {"/reconnect_first", options.reconnect_first},
      {"/link_limit", options.link_limit},
      {"/welcome_limit", options.welcome_limit},
      {"/gather_limit", options.gather_limit},
      {"/restart_first", options.restart_first},
      {"/restart_reset", options.restart_reset},
      {"/attach_limit", options.attach_limit},
      {"/detach_limit", options.detach_limit},
      {"/unresponsive_limit", options.unresponsive_limit},
      {"/assign_limit", options.assign_limit},
      {"/transfer_limit", options.transfer_limit},
      {"/load_limit", options.load_limit},
      {"/release_limit", options.release_limit},
      {"/drain_limit", options.drain_limit},
      {"/settled_after", options.settled_after},
      {"/upload_first", options.upload_first}};
  for (const auto& [pointer, time] : times) {
    if (time.ns <= 0) errors.push_back({pointer, "must be above 0"});
  }
  if (options.reconnect_cap < options.reconnect_first) {
    errors.push_back({"/reconnect_cap", "must not be below reconnect_first"});
  }
  if (options.restart_cap < options.restart_first) {
    errors.push_back({"/restart_cap", "must not be below restart_first"});
  }
  if (options.upload_cap < options.upload_first) {
    errors.push_back({"/upload_cap", "must not be below upload_first"});
  }
}

void check_bounds(const Options& options, std::vector<FieldError>& errors) {
  const std::pair<const char*, std::int32_t> bounds[] = {
      {"/replicas_max", options.replicas_max},
      {"/trainers_per_device_max", options.trainers_per_device_max},
      {"/checkpoints_max", options.checkpoints_max},
      {"/failures_kept", options.failures_kept},
      {"/released_kept", options.released_kept}};
  for (const auto& [pointer, bound] : bounds) {
    if (bound <= 0) errors.push_back({pointer, "must be above 0"});
  }
}

}  // namespace

std::vector<FieldError> validate(const Options& options) {
  std::vector<FieldError> errors;
  check_identity(options, errors);
  check_times(options, errors);
  check_bounds(options, errors);
  return errors;
}

}  // namespace shoal::agent
