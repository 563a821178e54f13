// See report.h. The plot is in plot.cc.
#include "bench/convergence/report.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>

#include <nlohmann/json.hpp>

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

const ArmResult* find(const std::vector<ArmResult>& results, SyncAlgorithm algorithm) {
  for (const ArmResult& result : results) {
    if (result.arm.sync.algorithm == algorithm) return &result;
  }
  return nullptr;
}

struct Cells {
  std::string name, lr, loss, spread, against, bytes;
};

std::string loss_text(double loss) {
  return std::isfinite(loss) && loss < 100 ? format("%.4f", loss) : "diverged";
}

Cells cells_of(const ArmResult& result, const ArmResult* ddp) {
  const double loss = result.mean();
  Cells cells{result.arm.name, format("%g", result.lr), loss_text(loss), "", "", ""};
  if (std::isfinite(loss) && loss < 100) {
    cells.spread = format("%.4f – %.4f", result.lowest(), result.highest());
    if (ddp != nullptr) cells.against = format("%+.1f %%", 100 * (loss / ddp->mean() - 1));
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
  const ArmResult* ddp = find(results, SyncAlgorithm::kDdp);
  std::string text =
      "| arm | inner lr | loss, mean | over seeds | against ddp | bytes per step |\n"
      "|---|---|---|---|---|---|\n";
  for (const ArmResult& result : results) {
    const Cells c = cells_of(result, ddp);
    text += "| " + c.name + " | " + c.lr + (result.sweep.empty() ? "" : " (tuned)") + " | " +
            c.loss + " | " + c.spread + " | " + c.against + " | " + c.bytes + " |\n";
  }
  return text;
}

}  // namespace

std::string table_of(const std::vector<ArmResult>& results) {
  const ArmResult* ddp = find(results, SyncAlgorithm::kDdp);
  std::string text = format("%-34s %-8s %-9s %-18s %-9s %s\n", "arm", "lr", "loss", "over seeds",
                            "vs ddp", "bytes/step");
  for (const ArmResult& result : results) {
    const Cells c = cells_of(result, ddp);
    // The dash of a range has three bytes and one column.
    text += format("%-34s %-8s %-9s %-20s %-9s %s\n", c.name.c_str(), c.lr.c_str(), c.loss.c_str(),
                   c.spread.c_str(), c.against.c_str(), c.bytes.c_str());
  }
  return text;
}

std::string json_of(const CampaignOptions& options, const std::vector<ArmResult>& results) {
  Json arms = Json::array();
  for (const ArmResult& result : results) {
    Json runs = Json::array();
    for (const Trajectory& run : result.runs) {
      Json curve = Json::array();
      for (const CurvePoint& point : run.curve) curve.push_back({point.step.count(), point.loss});
      runs.push_back({{"loss", run.final_loss()}, {"seconds", run.seconds}, {"curve", curve}});
    }
    arms.push_back({{"arm", result.arm.name},
                    {"lr", result.lr},
                    {"sweep", result.sweep},
                    {"loss_mean", result.mean()},
                    {"loss_lowest", result.lowest()},
                    {"loss_highest", result.highest()},
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
      "# Convergence\n\n"
      "How well the algorithms of `sync.algorithm` learn per inner step, and what the codecs and "
      "faults cost.\n"
      "Written by `shoal-bench convergence --write docs`; the harness runs the trainer's learner, "
      "the\n"
      "sessions and the codecs of a real run in one process, without sockets.\n\n"
      "![loss over inner steps](images/convergence.svg)\n\n";
  text += markdown_table(results);
  text += "\n## How to read it\n\n";
  text += format(
      "- A GPT of %lld parameters (%lld layers, %lld wide, context %lld) on bytes of English "
      "prose; ",
      static_cast<long long>(parameter_count(s.model)), static_cast<long long>(s.model.layers),
      static_cast<long long>(s.model.hidden), static_cast<long long>(s.model.context));
  text += format(
      "%lld workers,\n  %lld inner steps each, %lld sequences per worker and step. %lld seeds.\n",
      static_cast<long long>(options.workers), static_cast<long long>(s.steps.count()),
      static_cast<long long>(s.batch), static_cast<long long>(options.seeds));
  text +=
      "- Loss is in nats per byte, percentages are of that loss (not of perplexity), of the shared "
      "parameters, on\n"
      "  the same held-out text for all.\n"
      "- \"tuned\": the inner learning rate was swept by factors of two, for this arm alone "
      "(below). The others\n"
      "  take over the rate of the arm they are a variant of.\n"
      "- All arms but `one worker` see the same number of tokens. Equal inner steps, so equal wall "
      "time where\n"
      "  nothing has to be waited for: that communication costs time is not in these figures.\n"
      "- A lost round is lost with its progress: the replica comes back with the shared "
      "parameters.\n"
      "- The attacker is one of the workers and sends -10 times its pseudo-gradient in every "
      "round.\n"
      "- Bytes: sent by one worker, frames with their headers, divided by the inner steps.\n"
      "- Tiny models say how the mechanics behave, not how large ones will: published gaps shrink "
      "with size.\n\n"
      "## The sweeps\n\n| arm | lr: loss of the first seed |\n|---|---|\n";
  for (const ArmResult& result : results) {
    if (!result.sweep.empty()) text += "| " + result.arm.name + " | " + rates_text(result) + " |\n";
  }
  return text;
}

}  // namespace shoal::bench
