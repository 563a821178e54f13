// shoal-memory: what `shoal-bench memory` runs. The bytes per parameter that a replica holds, on
// its device and on the host beside it, in every kind of round: the evidence for docs/memory.md,
// and for the planner's formula (job/training_vectors.h), which --check holds against it.
//
// Every mode has fresh processes, which train a Llama over rounds as a coordinator orders them
// (member.h); the first one's figures count. The context is short and the batch small, because
// activations are no part of the table: what they take is the difference between peak and steady
// of the device.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/prng.h"
#include "bench/guarded.h"
#include "bench/memory/member.h"
#include "bench/worker_processes.h"
#include "job/job_rules.h"
#include "job/training_vectors.h"
#include "outer_opt/core/codec/codec.h"
#include "trainer/plain/threads.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ModelSpec model{.layers = 5, .hidden = 768, .heads = 12, .context = 16};
  std::vector<std::string> modes;
  bool check = false, json = false;
};

struct Mode {
  std::string name;
  std::function<void(JobSpec&)> change;
  int members = 2, joiners = 0;
  std::vector<std::string> commands = {"round", "round"};  // after load
};

void overlap(JobSpec& job) { job.sync.overlap_steps = Steps(2); }

std::vector<Mode> all_modes() {
  return {
      {"fp32", [](JobSpec& job) { job.sync.codec = CodecKind::kFp32; }},
      {"int8", [](JobSpec&) {}},
      {"int4", [](JobSpec& job) { job.sync.codec = CodecKind::kInt4; }},
      {"overlap", overlap},
      {"eager",
       [](JobSpec& job) {
         overlap(job);
         job.sync.eager = true;
       }},
      {"sharded",
       [](JobSpec& job) {
         job.sync.outer_state = OuterState::kSharded;
         job.swarm.min_replicas = 4;
       },
       4},
      {"evaluation", [](JobSpec&) {}, 2, 0, {"round", "evaluate", "round", "evaluate"}},
      {"checkpoint",
       [](JobSpec& job) { job.checkpoint.every_rounds = 2; },
       2,
       0,
       {"round", "round", "checkpoint"}},
      {"source",
       [](JobSpec& job) { job.train.join = JoinMoments::kMoments; },
       2,
       1,
       {"round", "round", "join", "round"}},
  };
}

// A folder that vanishes with this object.
class Scratch {
 public:
  Scratch()
      : path_(std::filesystem::temp_directory_path() /
              ("shoal-memory-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
    Prng prng(1);
    std::string text(1 << 20, '\0');
    for (char& c : text) c = static_cast<char>(prng.below(256));
    std::ofstream out(path_ / "tokens.txt", std::ios::binary);
    if (!(out << text).flush()) throw std::runtime_error("cannot write to " + path_.string());
  }
  ~Scratch() {
    std::error_code ignored;  // temporary files that stay are no failure of the measurement
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  std::string folder() const { return path_.string(); }
  std::string text() const { return (path_ / "tokens.txt").string(); }

 private:
  std::filesystem::path path_;
};

JobSpec spec_for(const Options& options, const Mode& mode, const Scratch& scratch) {
  JobSpec job;
  job.name = "memory";
  job.model = options.model;
  job.data.train = scratch.text();
  job.train.batch = 1;
  job.sync.every = Steps(4);
  job.checkpoint.every_rounds = 0;
  mode.change(job);
  const auto problems = validate(job);
  if (!problems.empty()) throw std::runtime_error(problems[0].pointer + ": " + problems[0].detail);
  return with_derived_fields(job);
}

constexpr double kSumBytes = 64 << 20;  // outer_opt/core/reduce/butterfly_session.h
constexpr double kPutAside = 4;         // local parameters, while the anchor is evaluated

bool evaluates(const Mode& mode) { return std::ranges::count(mode.commands, "evaluate") > 0; }

struct Figures {  // bytes per parameter
  double device = 0, device_peak = 0;
  double host = 0, host_round = 0, host_peak = 0;
  double host_sums =
      0;  // planned: what of the last two depends on the order of the frames, at most
};

// What the planner says, with the average as it is kept in these rounds: the planner counts four
// bytes of it, whatever the codec.
Figures planned_for(const JobSpec& spec, const Mode& mode, double parameters) {
  const ReplicaVectors vectors = replica_vectors(spec);
  const CodecKind kind = spec.sync.codec;
  const double encoded =
      static_cast<double>(outer_opt::codec(kind).encoded_size(1 << 20)) / (1 << 20);
  const bool as_frames = kind != CodecKind::kFp32 && !spec.sync.eager;
  const double average = as_frames ? encoded : 4;
  // In the reduce alone: sums of the own part beside frames, or its frames beside values.
  const double part = 1.0 / mode.members;
  const double sums = as_frames ? std::min(4 * part, kSumBytes / parameters) : 0;
  const double own = as_frames || kind == CodecKind::kFp32 ? 0 : encoded * part;
  const double saved = 4 - average;
  const double round = 4 * vectors.host_round - saved + own + sums;
  double peak = round;
  if (spec.checkpoint.every_rounds > 0) peak = 4 * vectors.host_checkpoint - saved;  // at a commit
  if (mode.joiners > 0) peak = 4 * vectors.host_source - saved + own + sums;
  if (evaluates(mode)) peak = std::max(peak, 4 * vectors.host_round - saved + kPutAside);
  return {4 * vectors.device, 4 * vectors.device_peak, 4 * vectors.host, round, peak, sums};
}

struct Measured {
  Mode mode;
  double parameters = 0;
  Figures planned, figures;
  double resident_peak = 0;  // bytes
  std::string peak_phase;    // of the host
  Json phases = Json::array();
};

Json ask_first(WorkerProcesses& processes, const std::string& command) {
  const auto answers = processes.ask(command);
  if (answers.empty()) throw std::runtime_error("a process ended during \"" + command + "\"");
  for (const std::string& answer : answers) {
    const Json json = Json::parse(answer);
    if (json.contains("error")) {
      throw std::runtime_error(command + ": " + json["error"].get<std::string>());
    }
  }
  return Json::parse(answers.front());
}

std::string addresses_of(WorkerProcesses& processes) {
  std::string all;
  for (const std::string& answer : processes.ask("start")) {
    const Json json = Json::parse(answer);
    if (json.contains("error")) throw std::runtime_error(json["error"].get<std::string>());
    all += " " + json["address"].get<std::string>();
  }
  return all;
}

// At rest a replica is behind its first commit: no checkpoint is due yet, and nobody joins.
void sum_up(Measured& out) {
  const auto per_parameter = [&](const Json& bytes) {
    return bytes.get<double>() / out.parameters;
  };
  double idle = 0;  // what the system may take between two rounds
  for (std::size_t i = 0; i < out.phases.size(); ++i) {
    const Json& phase = out.phases[i];
    const auto name = phase["phase"].get<std::string>();
    Figures& f = out.figures;
    f.device_peak = std::max(f.device_peak, per_parameter(phase["tensors"]["peak"]));
    out.resident_peak = std::max(out.resident_peak, phase["resident_peak"].get<double>());
    const double host = per_parameter(phase["vectors"]["peak"]);
    if (host > f.host_peak) out.peak_phase = name;
    f.host_peak = std::max(f.host_peak, host);
    if (name == "reduce") f.host_round = std::max(f.host_round, host);
    if (name == "commit") idle = per_parameter(phase["idle"]);
    if (name != "train" || i == 0 || f.host > 0) continue;
    f.device = per_parameter(phase["tensors"]["low"]);
    f.host = per_parameter(phase["vectors"]["low"]) - idle;
  }
}

Measured measure(const Options& options, const Mode& mode) {
  const Scratch scratch;
  const JobSpec spec = spec_for(options, mode, scratch);
  const MemorySetup setup{spec, mode.members, static_cast<RoundNumber>(mode.joiners > 0 ? 2 : 0),
                          scratch.folder()};
  std::shared_ptr<MemoryMember> member;  // of the process that has one
  WorkerProcesses processes(mode.members + mode.joiners, [&](int index) {
    member = std::make_shared<MemoryMember>(setup, index);
    return [member](const std::string& command) { return member->obey(command); };
  });
  const std::string addresses = addresses_of(processes);
  Measured out{.mode = mode};
  const Json loaded = ask_first(processes, "load" + addresses);
  out.parameters = loaded["values"].get<double>();
  out.planned = planned_for(spec, mode, out.parameters);
  out.phases = loaded["phases"];
  for (const std::string& command : mode.commands) {
    const Json done = ask_first(processes, command == "join" ? command + addresses : command);
    for (const Json& phase : done["phases"]) out.phases.push_back(phase);
  }
  sum_up(out);
  return out;
}

void print(const Measured& m) {
  const Figures &f = m.figures, &p = m.planned;
  std::printf("%-11s %8.2f %8.2f %8.2f %8.2f %8.2f  %-7s %7.0f   %6.1f %6.1f %6.1f %6.1f %6.1f\n",
              m.mode.name.c_str(), f.device, f.device_peak, f.host, f.host_round, f.host_peak,
              m.peak_phase.c_str(), m.resident_peak / (1 << 20), p.device, p.device_peak, p.host,
              p.host_round, p.host_peak);
  std::fflush(stdout);
}

void print_head() {
  std::printf("bytes per parameter; resident: MiB of the process; planned: by the formula\n");
  std::printf("%-11s %17s %26s  %-7s %7s   %s\n", "", "device", "host", "peak in", "resid.",
              "planned");
  std::printf("%-11s %8s %8s %8s %8s %8s\n", "", "rest", "peak", "rest", "round", "peak");
}

Json json_of(const Figures& f) {
  return {{"device", f.device},
          {"device_peak", f.device_peak},
          {"host", f.host},
          {"host_round", f.host_round},
          {"host_peak", f.host_peak}};
}

Json json_of(const Measured& m) {
  return {{"mode", m.mode.name},
          {"members", m.mode.members},
          {"measured", json_of(m.figures)},
          {"planned", json_of(m.planned)},
          {"host_peak_phase", m.peak_phase},
          {"resident_peak_bytes", m.resident_peak},
          {"phases", m.phases}};
}

// Figures that differ from the plan by more than a tenth, for buffers of constant size.
// Activations are no part of the plan, and a source holds at most what it says.
std::string disagreement(const Measured& m) {
  constexpr double kTolerance = 0.1;
  const Figures &f = m.figures, &p = m.planned;
  const auto differs = [](double measured, double planned) {
    return std::abs(measured - planned) > kTolerance * planned;
  };
  std::string text;
  if (differs(f.device, p.device)) text += " device at rest";
  if (f.device_peak > (1 + kTolerance) * p.device_peak) text += " device peak";
  if (differs(f.host, p.host)) text += " host at rest";
  const bool at_most = m.mode.joiners > 0;
  const bool more = f.host_peak > (1 + kTolerance) * p.host_peak;
  if (more || (!at_most && f.host_peak < (1 - kTolerance) * (p.host_peak - p.host_sums))) {
    text += " host peak";
  }
  return text;
}

std::vector<Mode> chosen(const Options& options) {
  std::vector<Mode> modes = all_modes();
  if (options.modes.empty()) return modes;
  std::erase_if(modes, [&](const Mode& mode) {
    return std::ranges::find(options.modes, mode.name) == options.modes.end();
  });
  return modes;
}

int run(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  for (const Mode& mode : all_modes()) names.push_back(mode.name);
  CLI::App app("The bytes per parameter that a replica holds, on its device and on the host.");
  app.name("shoal-bench memory");
  app.add_option("--modes", options.modes, "Which of " + CLI::detail::join(names))
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--layers", options.model.layers)->check(CLI::Range(1, 1000));
  app.add_option("--hidden", options.model.hidden)->check(CLI::Range(1, 1 << 16));
  app.add_option("--heads", options.model.heads)->check(CLI::Range(1, 1 << 10));
  app.add_flag("--check", options.check, "Fail where a figure is a tenth from the plan");
  app.add_flag("--json", options.json, "One JSON object");
  CLI11_PARSE(app, argc, argv);
  Json json = {{"name", "memory"}, {"unit", "bytes per parameter"}, {"modes", Json::array()}};
  if (!options.json) print_head();
  std::string problems;
  for (const Mode& mode : chosen(options)) {
    const Measured measured = measure(options, mode);
    json["parameters"] = measured.parameters;
    json["modes"].push_back(json_of(measured));
    if (!options.json) print(measured);
    const std::string text = disagreement(measured);
    if (!text.empty()) problems += mode.name + ":" + text + "\n";
  }
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
  if (!options.check || problems.empty()) return 0;
  std::fprintf(stderr, "more than a tenth from the plan:\n%s", problems.c_str());
  return 1;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  shoal::trainer::require_thread_environment(argv);
  return shoal::bench::guarded(shoal::bench::run, argc, argv);
}
