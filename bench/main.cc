// shoal-bench: how fast the parts are on this machine.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "bench/bench.h"
#include "outer_opt/core/codec.h"

namespace shoal::bench {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

int run_trainer(const std::vector<std::string>& arguments, bool json) {
  std::error_code failure;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failure);
  const std::string binary = (self.parent_path() / "shoal-trainer").string();
  std::vector<std::string> words = {binary, "bench"};
  if (json) words.emplace_back("--json");
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(binary.c_str(), argv.data());
  std::perror(("shoal-bench: cannot run " + binary + " (was it built? it needs libtorch)").c_str());
  return 1;
}

namespace {

CLI::App* add_pipeline(CLI::App& app, PipelineOptions& o) {
  CLI::App* command = app.add_subcommand(
      "pipeline",
      "What a hop costs; with --agents, the fraction of compute-ideal with devices "
      "that wait, beside the simulator's");
  command->add_option("--agents", o.agents)->check(CLI::Range(1, 1000));
  command->add_option("--stages", o.stages)->check(CLI::Range(1, 50));
  command->add_option("--rtt", o.rtt_ms, "Of the emulated line, ms")->check(CLI::Range(0.0, 10e3));
  command->add_option("--mbit", o.mbit, "Of the emulated line, each direction; 0: no limit")
      ->check(CLI::Range(0.0, 1e6));
  command->add_option("--forward", o.forward_ms, "ms at speed 1")->check(CLI::Range(0.0, 1e6));
  command->add_option("--backward", o.backward_ms, "ms at speed 1")->check(CLI::Range(0.0, 1e6));
  command->add_option("--jitter", o.jitter, "Relative deviation of a pass")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--microbatches", o.microbatches, "Per step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  command->add_option("--window", o.window, "Microbatches in flight")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--payload", o.payload, "Bytes of one boundary")
      ->check(CLI::Range(std::int64_t{1024}, std::int64_t{1} << 30));
  command->add_option("--speeds", o.speeds, "Dealt to the agents of a stage")->delimiter(',');
  command->add_option("--steps", o.steps)->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}));
  command->add_option("--repeats", o.repeats, "Of a hop")->check(CLI::Range(1, 1000));
  return command;
}

int run(int argc, char** argv) {
  CLI::App app("Measures the parts of Shoal on this machine.");
  app.name("shoal-bench");
  app.require_subcommand(1);
  bool json = false;
  CodecOptions codec;
  AllReduceOptions all_reduce;
  PlannerOptions planner;
  PipelineOptions pipeline;

  CLI::App* codec_command = app.add_subcommand("codec", "Every codec beside memcpy, and its error");
  codec_command->add_option("--values", codec.values, "fp32 values per pass")
      ->check(CLI::Range(std::int64_t{1024}, std::int64_t{1} << 32));
  codec_command->add_option("--repeats", codec.repeats)->check(CLI::Range(1, 1000));

  CLI::App* reduce_command =
      app.add_subcommand("all-reduce", "Processes on loopback beside gloo's ring, if built in");
  reduce_command->add_option("--processes", all_reduce.processes)->check(CLI::Range(1, 64));
  reduce_command->add_option("--values", all_reduce.values, "fp32 values per process")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32));
  reduce_command->add_option("--repeats", all_reduce.repeats)->check(CLI::Range(1, 1000));
  std::vector<std::string> words;
  for (const CodecKind kind : outer_opt::kDenseCodecs) words.emplace_back(to_string(kind));
  reduce_command->add_option("--codecs", all_reduce.codecs, "Of " + CLI::detail::join(words))
      ->delimiter(',')
      ->check(CLI::IsMember(words));
  reduce_command->add_option("--frame", all_reduce.frame_values, "Values per frame")
      ->check(CLI::Range(1024, 1 << 20));
  reduce_command->add_flag("--tcp", all_reduce.tcp, "Over TCP, as between hosts");
  reduce_command->add_option("--namespaces", all_reduce.namespaces, "Network namespace of each")
      ->delimiter(',');
  reduce_command->add_option("--hosts", all_reduce.hosts, "Address of each in its namespace")
      ->delimiter(',');
  reduce_command
      ->add_option(
          "--mbit", all_reduce.mbit,
          "Line of each, which the namespaces impose: parts follow it, equal parts beside it")
      ->delimiter(',');

  CLI::App* planner_command =
      app.add_subcommand("planner", "Assignment, wiring and the pipeline simulator");
  planner_command->add_option("--agents", planner.agents)
      ->check(CLI::Range(std::int64_t{100}, std::int64_t{1'000'000}));
  planner_command->add_option("--stages", planner.stages)->check(CLI::Range(1, 50));
  planner_command->add_option("--replicas", planner.replicas, "Of one stage, for the wiring")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  planner_command->add_option("--repeats", planner.repeats)->check(CLI::Range(1, 1000));

  CLI::App* pipeline_command = add_pipeline(app, pipeline);

  CLI::App* trainer_command = app.add_subcommand(
      "trainer", "Inner steps of shoal-trainer; further options are passed on to it");
  trainer_command->allow_extras();
  for (CLI::App* command :
       {codec_command, reduce_command, planner_command, pipeline_command, trainer_command}) {
    command->add_flag("--json", json, "One JSON object");
  }

  CLI11_PARSE(app, argc, argv);
  codec.json = all_reduce.json = planner.json = pipeline.json = json;
  if (app.got_subcommand(codec_command)) return run_codec(codec);
  if (app.got_subcommand(reduce_command)) return run_all_reduce(all_reduce);
  if (app.got_subcommand(planner_command)) return run_planner(planner);
  if (app.got_subcommand(pipeline_command)) return run_pipeline(pipeline);
  return run_trainer(trainer_command->remaining(), json);
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) { return shoal::bench::run(argc, argv); }
