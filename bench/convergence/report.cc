// See report.h. The plot is in plot.cc.
#include "bench/convergence/report.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "bench/statistics.h"
#include "bench/tuning.h"
#include "job/job_options.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::ordered_json;

const OuterSpec kUsual = default_options(SyncAlgorithm::kDiloco).sync.outer;

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

std::string rates_text(const ArmResult& result) {
  std::string text;
  for (const auto& [lr, loss] : result.sweep) {
    text += (text.empty() ? "" : ", ") + format("%g: ", lr) + loss_text(loss);
  }
  return text;
}

std::string markdown_table(const std::vector<ArmResult>& results) {
  std::string text =
      "| arm | inner lr | loss, mean and 95 % | seeds | against ddp | against its base | bytes "
      "per step |\n|---|---|---|---|---|---|---|\n";
  for (const ArmResult& result : results) {
    const Cells c = cells_of(result, results);
    text += "| " + c.name + " | " + c.lr + (result.sweep.empty() ? "" : " (tuned)") + " | " +
            c.loss + " | " + std::to_string(result.runs.size()) + " | " + c.against_ddp + " | " +
            c.against_base + " | " + c.bytes + " |\n";
  }
  return text;
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

std::string targets_text(const std::vector<ArmResult>& results) {
  std::string text = "| arm | against | at most | measured | |\n|---|---|---|---|---|\n";
  for (const Target& target : targets()) {
    const ArmResult* arm = find(results, target.arm);
    const ArmResult* against = find(results, target.against);
    if (arm == nullptr || against == nullptr) continue;
    const Interval measured = excess(*arm, *against);
    text += "| " + target.arm + " | " + target.against + format(" | %g %% | ", target.limit) +
            interval_text(measured, "%+.2f", " ± %.2f") + " % | " +
            to_string(verdict_of(measured, target.limit)) + " |\n";
  }
  return text;
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
  return text;
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

std::string markdown_of(const CampaignOptions& options, const std::vector<ArmResult>& results) {
  const Setting& s = options.setting;
  std::string text =
      "# Convergence: every arm\n\n"
      "Every algorithm, codec and fault that was compared, in one table. For people who change "
      "the\n"
      "outer step; which figures hold is in [convergence.md](convergence.md).\n\n"
      "The table shows how well the algorithms of `sync.algorithm` learn per inner step, and what\n"
      "codecs and faults cost. `shoal-bench convergence --write docs` writes this file; the "
      "harness\n"
      "runs the trainer's learner, the sessions and the codecs of a real run in one process, "
      "without\n"
      "sockets.\n\n"
      "![loss over inner steps](images/convergence.svg)\n\n";
  text += markdown_table(results) + "\n## Targets\n\n" + targets_text(results);
  text += "\n## How to read it\n\n";
  text += format(
      "- The model is a %s of %lld parameters (%lld layers, %lld wide, context %lld) on bytes of "
      "English "
      "prose; ",
      to_string(s.model.family), static_cast<long long>(parameter_count(s.model)),
      static_cast<long long>(s.model.layers), static_cast<long long>(s.model.hidden),
      static_cast<long long>(s.model.context));
  text += format(
      "%lld workers,\n  %lld inner steps each, %lld sequences per worker and step. %lld seeds.\n",
      static_cast<long long>(options.workers), static_cast<long long>(s.steps.count()),
      static_cast<long long>(s.batch), static_cast<long long>(options.seeds));
  text +=
      "- Loss is in nats per byte, of the shared parameters, on the same held-out text for all.\n"
      "  Percentages are of that loss (not of perplexity), on the seeds that both arms have.\n"
      "- Intervals are of 95 % (Student's t over the seeds); arms are compared seed by seed.\n"
      "- \"tuned\": the inner learning rate was swept by factors of two, for this arm alone, on a\n"
      "  seed that is not among those reported (below). The others take the rate of the tuned arm\n"
      "  they descend from. Their base, on the same seeds, is the arm whose name theirs begins "
      "with.\n"
      "- All arms except `one worker` and those with 7 or 8 workers see the same number of "
      "tokens.\n"
      "  Equal inner steps mean equal wall time where nothing waits: the time of communication is\n"
      "  not in these figures.\n"
      "- Outer a/b is an outer learning rate and momentum. What an arm does not name is the\n"
      "  product's default: int8, clipping, outer " +
      format("%g/%g", kUsual.lr, kUsual.momentum) +
      ".\n"
      "- Dropped: each worker's contribution to a round is lost with probability one half. "
      "Progress\n"
      "  lost: the worker continues from the shared parameters. Kept: from its own, as in the\n"
      "  DiLoCo paper. Moved with the anchor: from its own, moved by the outer step, which the\n"
      "  average of the present workers takes for their share (`sync.algorithm = \"async\"`).\n"
      "- In `moshpit` and `gossip` every worker has an anchor of its own, and evaluates it on its\n"
      "  share of the text.\n"
      "- `ddp, muon` is one worker with the batch of all, which is the same training up to "
      "rounding.\n"
      "- The attacker is one of eight workers and sends -10 times its pseudo-gradient in every\n"
      "  round. `nothing` is the mean without clipping. Its base is a run of the seven honest "
      "ones.\n"
      "- Bytes are those sent by one worker, frames with their headers, divided by the inner "
      "steps.\n"
      "- Tiny models show how the mechanics behave, not how large models will: published gaps\n"
      "  shrink with size.\n\n"
      "## The sweeps\n\n| arm | lr: loss of the tuning seed |\n|---|---|\n";
  for (const ArmResult& result : results) {
    if (!result.sweep.empty()) text += "| " + result.arm.name + " | " + rates_text(result) + " |\n";
  }
  return text;
}

}  // namespace shoal::bench
