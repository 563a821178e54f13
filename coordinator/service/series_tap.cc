#include "coordinator/service/series_tap.h"

namespace shoal::coordinator {

SeriesTap::SeriesTap(const Snapshot& snapshot) {
  for (const JobRecord& job : snapshot.jobs) {
    totals_.put(job.id, {job.committed_round, job.committed_tokens, job.bytes_sent});
  }
}

std::vector<SeriesPoint> SeriesTap::from_progress(Instant now, const Progress& progress) {
  const std::lock_guard guard(mutex_);
  const Totals* totals = totals_.find(progress.key.job);
  SeriesPoint point{.job = progress.key.job,
                    .replica = progress.replica,
                    .step = progress.step.n,
                    .round = progress.key.round,
                    .tokens = (totals != nullptr ? totals->tokens : Tokens()) + progress.tokens,
                    .at = now};
  std::vector<SeriesPoint> points;
  const auto add = [&](const char* name, double value) {
    point.name = name;
    point.value = value;
    points.push_back(point);
  };
  if (progress.train_loss > 0) add("train_loss", progress.train_loss);  // routers alone know it
  add("tokens_per_second", progress.tokens_per_s);
  add("learning_rate", progress.lr);
  add("gradient_norm", progress.gradient_norm);
  return points;
}

std::vector<SeriesPoint> SeriesTap::from_record(Instant now, const Record& record) {
  const std::lock_guard guard(mutex_);
  if (const auto* job = std::get_if<JobRecord>(&record)) return from_job(now, *job);
  if (const auto* round = std::get_if<RoundRecord>(&record)) return from_round(now, *round);
  return {};
}

std::vector<SeriesPoint> SeriesTap::from_job(Instant now, const JobRecord& job) {
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
  totals = {job.committed_round, job.committed_tokens, job.bytes_sent};
  return points;
}

// A round is written again when its evaluation arrives; the same points then replace themselves.
std::vector<SeriesPoint> SeriesTap::from_round(Instant, const RoundRecord& round) {
  if (round.state != RoundState::kCommitted) return {};
  const Totals* totals = totals_.find(round.key.job);
  SeriesPoint point{.job = round.key.job,
                    .replica = {},
                    .step = round.to_step.n,
                    .round = round.key.round,
                    .tokens = totals != nullptr ? totals->tokens : Tokens(),
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
