#include "coordinator/service/telemetry_exporter.h"

#include <utility>

namespace shoal::coordinator {

TelemetryExporter::TelemetryExporter(const Snapshot& snapshot) {
  for (const JobRecord& job : snapshot.jobs) {
    totals_.put(job.id, {job.epoch, job.committed_round, job.committed_tokens, job.bytes_sent});
  }
}

std::vector<SeriesPoint> TelemetryExporter::from_progress(Instant now, const Progress& progress) {
  const MutexLock guard(mutex_);
  const Totals* totals = totals_.find(progress.key.job);
  if (totals != nullptr && progress.key.epoch != totals->epoch) return {};
  SeriesPoint point{.job = progress.key.job,
                    .replica = progress.replica,
                    .step = progress.step.n,
                    .round = progress.key.round,
                    .tokens = (totals != nullptr ? totals->tokens : Tokens()) + progress.tokens,
                    .at = now};
  std::vector<SeriesPoint> points;
  const auto add = [&](std::string name, double value) {
    point.name = std::move(name);
    point.value = value;
    points.push_back(point);
  };
  if (progress.train_loss > 0) add("train_loss", progress.train_loss);  // routers alone know it
  add("tokens_per_second", progress.tokens_per_s);
  add("learning_rate", progress.lr);
  add("gradient_norm", progress.gradient_norm);
  for (const LoggedValue& logged : progress.logged) {
    if (!takes_name(point.job, logged.name)) continue;
    point.step = logged.step.n;
    add("log." + logged.name, logged.value);
  }
  return points;
}

bool TelemetryExporter::takes_name(JobId job, const std::string& name) {
  std::set<std::string>& names = logged_names_[job];
  if (names.size() < kLoggedValuesMax) names.insert(name);
  return names.contains(name);
}

std::vector<SeriesPoint> TelemetryExporter::from_record(Instant now, const Record& record) {
  const MutexLock guard(mutex_);
  if (const auto* job = std::get_if<JobRecord>(&record)) return from_job(now, *job);
  if (const auto* round = std::get_if<RoundRecord>(&record)) return from_round(*round);
  return {};
}

std::optional<RoundNumber> TelemetryExporter::went_back_to(const JobRecord& job) {
  const MutexLock guard(mutex_);
  const Totals* totals = totals_.find(job.id);
  if (totals == nullptr || job.epoch == totals->epoch) return std::nullopt;
  return job.committed_round;
}

std::vector<SeriesPoint> TelemetryExporter::from_job(Instant now, const JobRecord& job) {
  Totals& totals = totals_[job.id];
  std::vector<SeriesPoint> points;
  if (job.committed_round > totals.round) {
    points.push_back({.job = job.id,
                      .name = "round_bytes",
                      .replica = {},
                      .step = job.committed_step.n,
                      .round = job.committed_round,
                      .tokens = job.committed_tokens,
                      .at = now,
                      .value = static_cast<double>((job.bytes_sent - totals.sent).n)});
  }
  totals = {job.epoch, job.committed_round, job.committed_tokens, job.bytes_sent};
  return points;
}

// A round is written again when its evaluation arrives, maybe after the next one has committed; the
// same points then replace themselves. Without tokens nothing was trained.
std::vector<SeriesPoint> TelemetryExporter::from_round(const RoundRecord& round) {
  if (round.state != RoundState::kCommitted) return {};
  if (round.key.round > 0 && round.job_tokens.n == 0) return {};
  SeriesPoint point{.job = round.key.job,
                    .replica = {},
                    .step = round.to_step.n,
                    .round = round.key.round,
                    .tokens = round.job_tokens,
                    .at = round.committed_at};
  std::vector<SeriesPoint> points;
  const auto add = [&](const char* name, double value) {
    point.name = name;
    point.value = value;
    points.push_back(point);
  };
  if (round.key.round > 0) {
    add("train_loss", round.train_loss);
    const double took_s = (round.committed_at - round.opened_at).seconds();
    add("round_seconds", took_s);
    if (took_s > 0) add("tokens_per_second", static_cast<double>(round.tokens.n) / took_s);
  }
  if (round.validation_loss != 0) add("validation_loss", round.validation_loss);
  return points;
}

}  // namespace shoal::coordinator
