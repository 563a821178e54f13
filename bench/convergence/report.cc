// See report.h.
#include "bench/convergence/report.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "bench/statistics.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string format(const char* pattern, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

bool converged(double loss) { return std::isfinite(loss) && loss < 100; }

std::string loss_text(double loss) { return converged(loss) ? format("%.4f", loss) : "diverged"; }

const ArmResult* find(const std::vector<ArmResult>& results, const std::string& name) {
  for (const ArmResult& result : results) {
    if (result.arm.name == name) return &result;
  }
  return nullptr;
}

std::string interval_text(const Interval& interval, const char* value, const char* half) {
  const std::string mean = format(value, interval.mean);
  return mean + (std::isfinite(interval.half) ? format(half, interval.half) : "");
}

// The excess over the other's loss, seed by seed, on the seeds that both have.
Interval excess(const ArmResult& result, const ArmResult& other) {
  return excess_of(result.losses(), other.losses());
}

std::string excess_text(const ArmResult& result, const ArmResult& other) {
  return interval_text(excess(result, other), "%+.1f", " ± %.1f") + " %";
}

std::string against_base(const ArmResult& result, const std::vector<ArmResult>& results) {
  const ArmResult* base = find(results, result.arm.base);
  return base != nullptr ? excess_text(result, *base) : "";
}

struct Cells {
  std::string name, lr, loss, against_ddp, against_base, bytes;
};

Cells cells_of(const ArmResult& result, const std::vector<ArmResult>& results) {
  const ArmResult* ddp = find(results, "ddp");
  const Interval loss = interval_of(result.losses());
  Cells cells{result.arm.name, format("%g", result.lr), loss_text(loss.mean)};
  if (converged(loss.mean)) {
    cells.loss = interval_text(loss, "%.4f", " ± %.4f");
    // Twice the workers see twice the tokens.
    const bool comparable = ddp != nullptr && result.arm.workers <= ddp->arm.workers;
    if (comparable) cells.against_ddp = excess_text(result, *ddp);
    cells.against_base = against_base(result, results);
  }
  cells.bytes = format("%.0f", result.runs[0].bytes_per_step);
  return cells;
}

struct Target {
  std::string arm, against;
  double limit = 0;  // per cent of the loss
};

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {
      {"diloco H=25", "ddp", 4},
      {"diloco H=50", "ddp", 5},
      {"diloco H=25", "diloco H=25, fp32", 0.2},
      {"diloco H=25, int4", "diloco H=25, fp32", 0.6},
      {"diloco H=25, e3m0", "diloco H=25, fp32", 0.6},
      {"diloco H=25, sparse2", "diloco H=25", 5},
      {"diloco H=25, half dropped, progress lost", "diloco H=25", 2.5},
      {"diloco H=25, half dropped, moved with the anchor", "diloco H=25", 2.5}};
  return all;
}

// A line for each target whose two arms were run; empty without any.
std::string targets_text(const std::vector<ArmResult>& results) {
  std::string text;
  for (const Target& target : targets()) {
    const ArmResult* arm = find(results, target.arm);
    const ArmResult* against = find(results, target.against);
    if (arm == nullptr || against == nullptr) continue;
    const Interval measured = excess(*arm, *against);
    text += target.arm + " against " + target.against + format(": at most %g %%, ", target.limit) +
            interval_text(measured, "%+.2f", " ± %.2f") +
            " %: " + to_string(verdict_of(measured, target.limit)) + "\n";
  }
  return text.empty() ? "" : "\ntargets\n" + text;
}

}  // namespace

std::string table_of(const std::vector<ArmResult>& results) {
  std::string text = format("%-42s %-8s %-17s %-13s %-13s %s\n", "arm", "lr", "loss", "vs ddp",
                            "vs base", "bytes/step");
  for (const ArmResult& result : results) {
    const Cells c = cells_of(result, results);
    // The sign between mean and half has two bytes and one column.
    text += format("%-42s %-8s %-18s %-14s %-14s %s\n", c.name.c_str(), c.lr.c_str(),
                   c.loss.c_str(), c.against_ddp.c_str(), c.against_base.c_str(), c.bytes.c_str());
  }
  return text + targets_text(results);
}

std::string json_of(const CampaignOptions& options, const std::vector<ArmResult>& results) {
  Json arms = Json::array();
  for (const ArmResult& result : results) {
    const Interval loss = interval_of(result.losses());
    Json runs = Json::array();
    for (const Trajectory& run : result.runs) {
      Json curve = Json::array();
      for (const CurvePoint& point : run.curve) curve.push_back({point.step.count(), point.loss});
      runs.push_back({{"loss", run.final_loss()}, {"seconds", run.seconds}, {"curve", curve}});
    }
    arms.push_back({{"arm", result.arm.name},
                    {"lr", result.lr},
                    {"sweep", result.sweep},
                    {"loss_mean", loss.mean},
                    {"loss_half_interval", std::isfinite(loss.half) ? Json(loss.half) : Json()},
                    {"bytes_per_step", result.runs[0].bytes_per_step},
                    {"runs", runs}});
  }
  const Json all = {
      {"workers", options.workers},     {"steps", options.setting.steps.count()},
      {"batch", options.setting.batch}, {"parameters", parameter_count(options.setting.model)},
      {"seeds", options.seeds},         {"arms", arms}};
  return all.dump(2) + "\n";
}

}  // namespace shoal::bench
