#include "agent/core/gpu_history.h"

#include <algorithm>
#include <cmath>

#include "base/wire_text.h"

namespace shoal::agent {
namespace {

constexpr Duration kRestFirst = seconds(10), kRestCap = seconds(600);
constexpr double kShareStep = 0.05;
constexpr double kMemoryStep = 64 << 20;  // bytes
constexpr double kCelsiusStep = 2, kMhzStep = 50;
constexpr double kWattsStep = 10, kLimitStep = 0.05;  // the larger one: of the power limit

// In steps; a value that has moved by less than one stays as it was told.
double steady(double told, double now, double step) {
  if (!std::isfinite(now) || now < 0) return told;
  return std::abs(now - told) < step ? told : std::round(now / step) * step;
}

Bytes steady(Bytes told, Bytes now) {
  const auto value = [](Bytes bytes) { return static_cast<double>(bytes.count()); };
  return Bytes(static_cast<std::int64_t>(steady(value(told), value(now), kMemoryStep)));
}

DeviceClimate steady(const DeviceClimate& told, const GpuReading& now) {
  DeviceClimate climate{
      .celsius = steady(told.celsius, now.celsius, kCelsiusStep),
      .watts = steady(told.watts, now.watts, std::max(kWattsStep, kLimitStep * now.watts_limit)),
      .watts_limit = now.watts_limit,
      .mhz = steady(told.mhz, now.mhz, kMhzStep),
      .mhz_max = now.mhz_max,
      .throttled = now.throttled};
  if (climate.throttled.size() > kThrottleReasonsMax) climate.throttled.resize(kThrottleReasonsMax);
  return climate;
}

// What drivers say, in characters and a length that the coordinator takes.
std::string told_error(const std::string& error) {
  return valid_text(shown_text(valid_text(error), false), kDeviceErrorBytesMax);
}

void raise(std::int64_t& value, std::int64_t now, const char* name, std::string& error) {
  if (now < value && error.empty()) {
    error = std::string(name) + " went back from " + std::to_string(value) + " to " +
            std::to_string(now);
  }
  value = std::max(value, now);
}

RecoveryAction recovery_of(std::int32_t action) {
  const bool known = action >= 0 && action <= static_cast<int>(RecoveryAction::kDrainAndReset);
  return known ? static_cast<RecoveryAction>(action) : RecoveryAction::kResetGpu;
}

}  // namespace

void GpuHistory::reported(Instant now, const std::vector<std::int32_t>& xids) {
  if (xids.empty()) return;
  if (!sample_.errors) sample_.errors.emplace();
  std::vector<XidCount>& counts = sample_.errors->xids;
  for (const std::int32_t xid : xids) {
    auto known = std::ranges::find(counts, xid, &XidCount::xid);
    if (known == counts.end() && counts.size() == kXidsMax) continue;
    if (known == counts.end()) known = counts.insert(known, {.xid = xid, .count = 0, .ago = {}});
    ++known->count;
    xids_at_[xid] = now;
  }
}

void GpuHistory::take_counters(const GpuReading& reading, std::string& error) {
  if (!sample_.errors) sample_.errors.emplace();
  DeviceErrors& errors = *sample_.errors;
  raise(errors.ecc_corrected, reading.ecc_corrected, "ecc_corrected", error);
  raise(errors.ecc_uncorrected, reading.ecc_uncorrected, "ecc_uncorrected", error);
  raise(errors.rows_remapped, reading.rows_remapped, "rows_remapped", error);
  raise(errors.pcie_replays, reading.pcie_replays, "pcie_replays", error);
  raise(errors.nvlink_errors, reading.nvlink_errors, "nvlink_errors", error);
  errors.remap_pending = reading.remap_pending;
  errors.remap_failed = reading.remap_failed;
  errors.recovery = recovery_of(reading.recovery);
}

void GpuHistory::answered(Instant now, const GpuReading& reading, bool listed,
                          std::optional<Bytes> ours) {
  answered_at_ = now;
  rests_until_ = {};
  rest_ = {};
  for (const GpuQuestion& question : reading.questions) {
    if (question.error.empty()) answered_.insert(question.name);
  }
  std::string error = failure_in(reading);
  const DeviceUse told = sample_.use.value_or(DeviceUse());
  sample_.use.reset();
  if (reading.has_memory) {
    memory_.take(now, Bytes(std::max<std::int64_t>(0, reading.memory_total)),
                 Bytes(std::max<std::int64_t>(0, reading.memory_used)), listed, ours);
    has_memory_ = reading.memory_total > 0;
  }
  if (reading.has_memory && reading.has_load) {
    sample_.use =
        DeviceUse{.busy = std::min(1.0, steady(told.busy, reading.busy, kShareStep)),
                  .stolen = 0,
                  .used_here = steady(told.used_here, memory_.used_here()),
                  .used_elsewhere = steady(told.used_elsewhere, memory_.used_elsewhere())};
  }
  const DeviceClimate before = sample_.climate.value_or(DeviceClimate());
  sample_.climate.reset();
  if (reading.has_climate) sample_.climate = steady(before, reading);
  if (reading.has_counters) take_counters(reading, error);
  sample_.error = told_error(error.empty() ? never_answered(reading) : error);
  sample_.answer = error.empty() ? DeviceAnswer::kWhole : DeviceAnswer::kPartial;
}

// The first question that fails and was answered before.
std::string GpuHistory::failure_in(const GpuReading& reading) const {
  for (const GpuQuestion& question : reading.questions) {
    if (!question.error.empty() && answered_.contains(question.name))
      return question.name + ": " + question.error;
  }
  return reading.questions.empty() ? reading.error : "";
}

std::string GpuHistory::never_answered(const GpuReading& reading) const {
  std::string all;
  for (const GpuQuestion& question : reading.questions) {
    if (question.error.empty()) continue;
    all += (all.empty() ? "it has never answered: " : ", ") + question.name + " (" +
           question.error + ")";
  }
  return all;
}

void GpuHistory::failed(Instant now, const std::string& error, bool lost) {
  sample_.answer = lost ? DeviceAnswer::kLost : DeviceAnswer::kSilent;
  sample_.error = told_error(error);
  rest_ = rest_ == Duration() ? kRestFirst : std::min(rest_ * 2, kRestCap);
  rests_until_ = now + rest_;
}

std::optional<DeviceSample> GpuHistory::sample(Instant now) const {
  if (sample_.answer == DeviceAnswer::kUnknown) return std::nullopt;
  DeviceSample sample = sample_;
  if (!answers() && answered_at_) sample.age = now - *answered_at_;
  if (!sample.errors) return sample;
  for (XidCount& xid : sample.errors->xids) xid.ago = now - xids_at_.at(xid.xid);
  return sample;
}

std::optional<Bytes> GpuHistory::usable_memory() const {
  return has_memory_ ? std::optional(memory_.usable()) : std::nullopt;
}

bool is_news(DeviceSample told, const DeviceSample& now) {
  if (now.age > told.age * 2) return true;
  told.age = now.age;
  if (told.errors && now.errors && told.errors->xids.size() == now.errors->xids.size()) {
    for (std::size_t i = 0; i < told.errors->xids.size(); ++i) {
      told.errors->xids[i].ago = now.errors->xids[i].ago;
    }
  }
  return told != now;
}

}  // namespace shoal::agent
