// shoal-memory: what `shoal-bench memory` runs. The bytes per parameter that a replica holds, on
// its device and on the host beside it, in every kind of round: the evidence for docs/memory.md,
// and for the planner's formula (job/memory_plan.h), which stands beside each figure.
//
// Every mode has fresh processes, which train a Llama over rounds as a coordinator orders them
// (member.h); the first one's figures count. The context is short and the batch small, because
// activations are no part of the table: what they take is the difference between peak and steady
// of the device.
#include <algorithm>
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
#include "job/job_options.h"
#include "trainer/plain/threads.h"

namespace shoal::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  ModelSpec model{.layers = 5, .hidden = 384, .heads = 6, .context = 16};
  std::vector<std::string> modes;
  bool json = false;
};

struct Mode {
  std::string name;
  std::function<void(JobOptions&)> change;
  int members = 2, joiners = 0;
  std::vector<std::string> commands = {"round", "round"};  // after load
};

void overlap(JobOptions& job) { job.sync.overlap_steps = Steps(2); }

std::vector<Mode> all_modes() {
  return {
      {"fp32", [](JobOptions& job) { job.sync.codec = CodecKind::kFp32; }},
      {"int8", [](JobOptions&) {}},
      {"int4", [](JobOptions& job) { job.sync.codec = CodecKind::kInt4; }},
      {"overlap", overlap},
      {"eager",
       [](JobOptions& job) {
         overlap(job);
         job.sync.eager = true;
       }},
      {"sharded", [](JobOptions& job) { job.sync.outer_state = OuterState::kSharded; }, 4},
      {"checkpoint",
       [](JobOptions& job) { job.checkpoint.every_rounds = 2; },
       2,
       0,
       {"round", "round", "checkpoint"}},
      {"source",
       [](JobOptions& job) { job.train.join = JoinMoments::kMoments; },
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
  JobOptions job = options_of(JobSpec{});
  job.name = "memory";
  job.model = options.model;
  job.data.train = scratch.text();
  job.train.batch = 1;
  job.sync.every = Steps(4);
  job.checkpoint.every_rounds = 0;
  mode.change(job);
  const auto problems = validate(job);
  if (!problems.empty()) throw std::runtime_error(problems[0].pointer + ": " + problems[0].detail);
  return with_derived_fields(spec_of(job));
}

struct Measured {
  Mode mode;
  double parameters = 0;
  double device_steady = 0, device_peak = 0;  // bytes per parameter
  double host_steady = 0, host_reduce = 0, host_peak = 0;
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

// The first phase is that of a replica that just begins.
void sum_up(Measured& out) {
  const auto per_parameter = [&](const Json& bytes) {
    return bytes.get<double>() / out.parameters;
  };
  for (std::size_t i = 0; i < out.phases.size(); ++i) {
    const Json& phase = out.phases[i];
    const auto name = phase["phase"].get<std::string>();
    out.device_peak = std::max(out.device_peak, per_parameter(phase["tensors"]["peak"]));
    out.resident_peak = std::max(out.resident_peak, phase["resident_peak"].get<double>());
    const double host = per_parameter(phase["vectors"]["peak"]);
    if (host > out.host_peak) out.peak_phase = name;
    out.host_peak = std::max(out.host_peak, host);
    if (name == "reduce") out.host_reduce = std::max(out.host_reduce, host);
    if (name != "train" || i == 0) continue;
    out.device_steady = per_parameter(phase["tensors"]["low"]);
    out.host_steady = per_parameter(phase["vectors"]["low"]);
  }
}

Measured measure(const Options& options, const Mode& mode) {
  const Scratch scratch;
  const MemorySetup setup{spec_for(options, mode, scratch), mode.members,
                          static_cast<RoundNumber>(mode.joiners > 0 ? 2 : 0), scratch.folder()};
  std::shared_ptr<MemoryMember> member;  // of the process that has one
  WorkerProcesses processes(mode.members + mode.joiners, [&](int index) {
    member = std::make_shared<MemoryMember>(setup, index);
    return [member](const std::string& command) { return member->obey(command); };
  });
  const std::string addresses = addresses_of(processes);
  Measured out{.mode = mode};
  const Json loaded = ask_first(processes, "load" + addresses);
  out.parameters = loaded["values"].get<double>();
  out.phases = loaded["phases"];
  for (const std::string& command : mode.commands) {
    const Json done = ask_first(processes, command == "join" ? command + addresses : command);
    for (const Json& phase : done["phases"]) out.phases.push_back(phase);
  }
  sum_up(out);
  return out;
}

void print(const Measured& m) {
  std::printf("%-11s %8.2f %8.2f   %8.2f %8.2f %8.2f  %-7s %9.0f\n", m.mode.name.c_str(),
              m.device_steady, m.device_peak, m.host_steady, m.host_reduce, m.host_peak,
              m.peak_phase.c_str(), m.resident_peak / (1 << 20));
  std::fflush(stdout);
}

Json json_of(const Measured& m) {
  return {{"mode", m.mode.name},
          {"members", m.mode.members},
          {"device", {{"steady", m.device_steady}, {"peak", m.device_peak}}},
          {"host",
           {{"steady", m.host_steady},
            {"reduce", m.host_reduce},
            {"peak", m.host_peak},
            {"peak_phase", m.peak_phase}}},
          {"resident_peak_bytes", m.resident_peak},
          {"phases", m.phases}};
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
  app.add_flag("--json", options.json, "One JSON object");
  CLI11_PARSE(app, argc, argv);
  Json json = {{"name", "memory"}, {"unit", "bytes per parameter"}, {"modes", Json::array()}};
  if (!options.json) {
    std::printf("bytes per parameter\n%-11s %17s   %26s  %-7s %9s\n%-11s %8s %8s   %8s %8s %8s\n",
                "", "device", "host", "peak in", "resident", "", "steady", "peak", "steady",
                "reduce", "peak");
  }
  for (const Mode& mode : chosen(options)) {
    const Measured measured = measure(options, mode);
    json["parameters"] = measured.parameters;
    json["modes"].push_back(json_of(measured));
    if (!options.json) print(measured);
  }
  if (options.json) std::printf("%s\n", json.dump(2).c_str());
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) {
  shoal::trainer::require_thread_environment(argv);
  return shoal::bench::guarded(shoal::bench::run, argc, argv);
}
