// See kept_runs.h. An infinite loss, which JSON has no number for, is null.
#include "bench/convergence/kept_runs.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace shoal::bench {
namespace {

using Json = nlohmann::json;

Json line_of(const std::string& key, const Trajectory& run) {
  Json curve = Json::array();
  for (const CurvePoint& point : run.curve) {
    const Json loss = std::isfinite(point.loss) ? Json(point.loss) : Json(nullptr);
    curve.push_back({point.step.count(), loss});
  }
  return {{"run", key},
          {"curve", curve},
          {"bytes_per_step", run.bytes_per_step},
          {"seconds", run.seconds}};
}

Trajectory run_of(const Json& line) {
  Trajectory run;
  for (const Json& point : line.at("curve")) {
    const double loss =
        point.at(1).is_null() ? std::numeric_limits<double>::infinity() : point.at(1).get<double>();
    run.curve.push_back({Steps(point.at(0).get<std::int64_t>()), loss});
  }
  run.bytes_per_step = line.at("bytes_per_step").get<double>();
  run.seconds = line.at("seconds").get<double>();
  return run;
}

}  // namespace

std::string run_key(const Setting& setting, const Arm& arm, double lr, std::uint64_t seed) {
  const ModelSpec& model = setting.model;
  const SyncSpec& sync = arm.sync;  // defaults change, and a name may stay
  Json job = {sync.outer.lr, sync.outer.momentum, to_string(sync.codec), sync.clip};
  if (sync.outer.method != OuterMethod::kNesterov) job.push_back(to_string(sync.outer.method));
  const Json key = {arm.name,
                    arm.workers,
                    job,
                    lr,
                    seed,
                    setting.text,
                    to_string(model.family),
                    model.layers,
                    model.hidden,
                    model.heads,
                    model.context,
                    setting.batch,
                    setting.steps.count(),
                    setting.points,
                    setting.eval_positions};
  return key.dump();
}

KeptRuns::KeptRuns(const std::string& path) {
  if (path.empty()) return;
  std::ifstream in(path);
  for (std::string text; std::getline(in, text);) {
    const Json line = Json::parse(text, nullptr, false);
    if (!line.is_object()) continue;  // a line that was being written when the process ended
    runs_[line.at("run").get<std::string>()] = run_of(line);
  }
  out_.open(path, std::ios::app);
  if (!out_) throw std::runtime_error("cannot write " + path);
}

const Trajectory* KeptRuns::find(const std::string& key) const {
  const auto known = runs_.find(key);
  return known == runs_.end() ? nullptr : &known->second;
}

const Trajectory& KeptRuns::keep(const std::string& key, Trajectory run) {
  if (out_.is_open()) out_ << line_of(key, run).dump() << std::endl;
  return runs_[key] = std::move(run);
}

}  // namespace shoal::bench
