// shoal-bench: how fast the parts are on this machine.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/number_text.h"
#include "bench/bench.h"
#include "cli/enum_option.h"
#include "outer_opt/core/codec/codec.h"

namespace shoal::bench {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

int run_beside(const std::string& binary, std::vector<std::string> arguments, bool json) {
  std::error_code failure;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failure);
  std::string path = (self.parent_path() / binary).string();
  if (json) arguments.emplace_back("--json");
  std::vector<char*> argv = {path.data()};
  for (std::string& word : arguments) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  std::perror(
      ("shoal-bench: cannot run " + path + " (was it built? those that train need libtorch)")
          .c_str());
  return 1;
}

namespace {

CLI::Validator number_within(double least, double most) {
  return {[=](const std::string& text) { return number_problem(text, least, most); }, ""};
}

CLI::App* add_pipeline(CLI::App& app, PipelineOptions& o) {
  CLI::App* command = app.add_subcommand(
      "pipeline",
      "What a hop costs; with --agents, the fraction of compute-ideal with devices "
      "that wait, beside the simulator's");
  command->add_option("--agents", o.agents)->check(CLI::Range(1, 1000));
  command->add_option("--stages", o.stages)->check(CLI::Range(1, 50));
  command->add_option("--rtt", o.rtt_ms, "Round trip of the emulated line, ms")
      ->check(number_within(0, 10e3));
  command->add_option("--mbit", o.mbit, "Rate of the emulated line, each direction; 0: no limit")
      ->check(number_within(0, 1e6));
  command->add_option("--forward", o.forward_ms, "ms at speed 1")->check(number_within(0, 1e6));
  command->add_option("--backward", o.backward_ms, "ms at speed 1")->check(number_within(0, 1e6));
  command->add_option("--jitter", o.jitter, "Relative deviation of a pass")
      ->check(number_within(0, 1.0));
  command->add_option("--microbatches", o.microbatches, "Per step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  command->add_option("--window", o.window, "Microbatches in flight")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--payload", o.payload, "Bytes of one boundary")
      ->check(CLI::Range(std::int64_t{1024}, std::int64_t{1} << 30));
  command->add_option("--speeds", o.speeds, "Dealt to the agents of a stage")
      ->delimiter(',')
      ->check(number_within(0.01, 100));
  command->add_option("--steps", o.steps)->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}));
  cli::add_enum_option(*command, "--schedule", o.schedule, "Schedule of the inner steps");
  command->add_option("--repeats", o.repeats, "Measurements of a hop")->check(CLI::Range(1, 1000));
  return command;
}

CLI::App* add_codec(CLI::App& app, CodecOptions& o) {
  CLI::App* command = app.add_subcommand("codec", "Every codec beside memcpy, and its error");
  command->add_option("--values", o.values, "fp32 values per pass")
      ->check(CLI::Range(std::int64_t{1024}, std::int64_t{1} << 32));
  command->add_option("--repeats", o.repeats)->check(CLI::Range(1, 1000));
  return command;
}

CLI::App* add_all_reduce(CLI::App& app, AllReduceOptions& o) {
  CLI::App* command =
      app.add_subcommand("all-reduce", "Processes on loopback beside gloo's ring, if built in");
  command->add_option("--processes", o.processes)->check(CLI::Range(1, 64));
  command->add_option("--values", o.values, "fp32 values per process")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32));
  command->add_option("--repeats", o.repeats)->check(CLI::Range(1, 1000));
  std::vector<std::string> words;
  for (const CodecKind kind : outer_opt::kDenseCodecs) words.emplace_back(to_string(kind));
  words.emplace_back(kAllCodecs);
  command->add_option("--codecs", o.codecs, "Which of " + CLI::detail::join(words))
      ->delimiter(',')
      ->check(CLI::IsMember(words));
  command->add_option("--frame", o.frame_values, "Values per frame; 0: by the lines")
      ->check(CLI::Range(1024, 1 << 20));
  command->add_flag("--ring", o.ring, "The ring beside the butterfly, where lines are equal");
  command->add_flag(
      "--decoded", o.decoded,
      "Averages that are kept as fp32 beside those that stay encoded, as in replicas");
  command->add_flag("--plain", o.plain, "No entropy coding, however slow the line is");
  command->add_flag("--tcp", o.tcp, "Over TCP, as between hosts");
  command->add_flag("--tls", o.tls,
                    "Over TCP with certificates, beside a butterfly of bare TLS sockets");
  command->add_flag("--alone", o.alone, "Without gloo's ring");
  command->add_option("--namespaces", o.namespaces, "Network namespace of each")->delimiter(',');
  command->add_option("--hosts", o.hosts, "Address of each in its namespace")->delimiter(',');
  command
      ->add_option(
          "--mbit", o.mbit,
          "Line of each, which the namespaces impose: parts follow it, equal parts beside it")
      ->delimiter(',');
  return command;
}

CLI::App* add_planner(CLI::App& app, PlannerOptions& o) {
  CLI::App* command =
      app.add_subcommand("planner", "Plans, assignment, wiring and the pipeline simulator");
  command->add_option("--clusters", o.clusters, "Random clusters to plan")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{100'000}));
  command->add_option("--agents", o.agents)
      ->check(CLI::Range(std::int64_t{100}, std::int64_t{1'000'000}));
  command->add_option("--stages", o.stages)->check(CLI::Range(1, 50));
  command->add_option("--replicas", o.replicas, "Replicas of one stage, for the wiring")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  command->add_option("--repeats", o.repeats)->check(CLI::Range(1, 1000));
  return command;
}

CLI::App* add_tokenizer(CLI::App& app, TokenizerOptions& o) {
  CLI::App* command = app.add_subcommand(
      "tokenizer", "Words counted, a vocabulary learned and a text encoded, on one core");
  command->add_option("--text", o.text, "A file instead of an invented text");
  command->add_option("--bytes", o.bytes, "Of the invented text")
      ->check(CLI::Range(std::int64_t{1000}, std::int64_t{1} << 32));
  command->add_option("--tokenizer", o.tokenizer, "A tokenizer.json instead of the learned one");
  command->add_option("--vocab", o.vocabulary, "Tokens to learn")
      ->check(CLI::Range(std::int64_t{257}, std::int64_t{1} << 22));
  command->add_option("--repeats", o.repeats)->check(CLI::Range(1, 1000));
  return command;
}

// A command of another binary beside this one: its options are passed on, --help included.
CLI::App* add_other(CLI::App& app, const char* name, const char* text) {
  CLI::App* command = app.add_subcommand(name, text);
  command->set_help_flag();
  command->allow_extras();
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
  CLI::App* codec_command = add_codec(app, codec);
  CLI::App* reduce_command = add_all_reduce(app, all_reduce);
  CLI::App* planner_command = add_planner(app, planner);
  TokenizerOptions tokenizer;
  CLI::App* tokenizer_command = add_tokenizer(app, tokenizer);
  CLI::App* pipeline_command = add_pipeline(app, pipeline);
  CLI::App* trainer_command = add_other(app, "trainer", "Inner steps of shoal-trainer");
  CLI::App* convergence_command =
      add_other(app, "convergence", "One small model trained in every way: loss and bytes of each");
  CLI::App* outer_command =
      add_other(app, "outer", "Which outer step a job of 20 to 500 rounds wants");
  CLI::App* memory_command =
      add_other(app, "memory", "Bytes per parameter that a replica holds in every kind of round");
  CLI::App* datasets_command =
      add_other(app, "datasets", "A dataset larger than memory is streamed, one comes over a line");
  CLI::App* kernels_command =
      add_other(app, "kernels", "The CUDA kernels and their variants beside a copy on the device");
  for (CLI::App* command :
       {codec_command, reduce_command, planner_command, pipeline_command, tokenizer_command,
        trainer_command, convergence_command, memory_command, datasets_command, kernels_command}) {
    command->add_flag("--json", json, "One JSON object");
  }

  CLI11_PARSE(app, argc, argv);
  codec.json = all_reduce.json = planner.json = pipeline.json = tokenizer.json = json;
  if (app.got_subcommand(codec_command)) return run_codec(codec);
  if (app.got_subcommand(reduce_command)) return run_all_reduce(all_reduce);
  if (app.got_subcommand(planner_command)) return run_planner(planner);
  if (app.got_subcommand(pipeline_command)) return run_pipeline(pipeline);
  if (app.got_subcommand(tokenizer_command)) return run_tokenizer(tokenizer);
  if (app.got_subcommand(convergence_command)) {
    return run_beside("shoal-convergence", convergence_command->remaining(), json);
  }
  if (app.got_subcommand(outer_command)) {
    return run_beside("shoal-outer", outer_command->remaining(), false);
  }
  if (app.got_subcommand(memory_command)) {
    return run_beside("shoal-memory", memory_command->remaining(), json);
  }
  if (app.got_subcommand(datasets_command)) {
    return run_beside("shoal-datasets", datasets_command->remaining(), json);
  }
  if (app.got_subcommand(kernels_command)) {
    return run_beside("shoal-kernels", kernels_command->remaining(), json);
  }
  auto arguments = trainer_command->remaining();
  arguments.insert(arguments.begin(), "bench");
  return run_beside("shoal-trainer", std::move(arguments), json);
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) { return shoal::bench::run(argc, argv); }
