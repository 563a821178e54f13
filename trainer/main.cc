// shoal-trainer: without a subcommand the process that an agent starts; `generate`, `export` and
// `bench` for people.
#include <iostream>

#include <CLI/CLI.hpp>

#include "base/number_text.h"
#include "cli/enum_option.h"
#include "trainer/bench.h"
#include "trainer/export.h"
#include "trainer/generate.h"
#include "trainer/model/group_member.h"
#include "trainer/model/torch_bridge.h"
#include "trainer/plain/threads.h"
#include "trainer/serve.h"

namespace shoal::trainer {
namespace {

void add_generate(CLI::App& app, GenerateOptions& options) {
  CLI::App* command = app.add_subcommand("generate", "Sample text from a checkpoint");
  command->add_option("--checkpoint", options.checkpoint, "Folder of the checkpoint")->required();
  command->add_option("--prompt", options.prompt, "Text to continue");
  command->add_option("--tokens", options.tokens, "How many tokens")->check(CLI::Range(0, 1000000));
  command->add_option("--temperature", options.temperature, "0 takes the likeliest token")
      ->check([](const std::string& text) { return number_problem(text, 0, 100); });
  command->add_option("--top-k", options.top_k, "Only the K likeliest tokens; 0: all")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", options.seed, "Same seed, same text");
  command->add_option("--threads", options.threads, "CPU threads")->check(CLI::Range(1, 1024));
  command->add_flag("--json", options.json, "One JSON object at the end");
}

struct ExportCommand {
  ExportOptions options;
  std::uint64_t shard_bytes = static_cast<std::uint64_t>(ExportOptions().shard_max.count());
  bool json = false;
};

void add_export(CLI::App& app, ExportCommand& command) {
  CLI::App* sub = app.add_subcommand("export", "Write a model for the Hugging Face libraries");
  ExportOptions& options = command.options;
  sub->add_option("--checkpoint", options.checkpoint, "Folder of the checkpoint")->required();
  sub->add_option("--output", options.out, "A new folder")->required();
  cli::add_enum_option(*sub, "--dtype", options.precision, "bf16 or fp32");
  sub->add_option("--shard-size", command.shard_bytes, "Most bytes of a file: 5GB")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62));
  sub->add_option("--tokenizer", options.tokenizer, "Copy the tokenizer of this folder");
  sub->add_flag("--json", command.json, "One JSON object at the end");
}

int run_export(ExportCommand& command) {
  command.options.shard_max = Bytes(static_cast<std::int64_t>(command.shard_bytes));
  return export_model(command.options, command.json);
}

void add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App* command = app.add_subcommand("bench", "Measure the speed of inner steps");
  cli::add_enum_option(*command, "--family", options.model.family, "llama or gpt2");
  command->add_option("--layers", options.model.layers);
  command->add_option("--hidden", options.model.hidden);
  command->add_option("--heads", options.model.heads);
  command->add_option("--kv-heads", options.model.kv_heads, "0: as many as heads");
  command->add_option("--ffn", options.model.ffn, "0: the family's default");
  command->add_option("--context", options.model.context);
  command->add_option("--vocab", options.model.vocab);
  command->add_option("--batch", options.batch);
  command->add_option("--steps", options.steps, "Measured steps")->check(CLI::Range(1, 1000000));
  command->add_option("--threads", options.threads, "CPU threads")->check(CLI::Range(1, 1024));
  cli::add_enum_option(*command, "--precision", options.precision, "fp32 or bf16");
  command->add_flag("--cuda", options.cuda, "CUDA device 0 instead of the CPU");
  command->add_flag("--eager", options.eager, "On a CUDA device: without CUDA graphs");
  command->add_flag("--json", options.json);
}

int run(int argc, char** argv) {
  CLI::App app(
      "Shoal's trainer: computes one replica on one device.\n"
      "Without a subcommand it serves the agent that started it (SHOAL_TRAINER_SOCKET).");
  app.name("shoal-trainer");
  app.require_subcommand(0, 1);
  GenerateOptions generate_options;
  BenchOptions bench_options;
  ExportCommand export_command;
  add_generate(app, generate_options);
  add_export(app, export_command);
  add_bench(app, bench_options);
  app.add_subcommand("version", "Version and libraries");
  app.add_subcommand(kGroupMemberCommand)->group("");  // started by the leader of a replica group
  CLI11_PARSE(app, argc, argv);
  if (app.got_subcommand("generate")) return generate(generate_options);
  if (app.got_subcommand("export")) return run_export(export_command);
  if (app.got_subcommand("bench")) return bench(bench_options);
  if (app.got_subcommand("version")) {
    std::cout << "shoal-trainer " SHOAL_VERSION "\n" << describe_libraries({}) << std::endl;
    return 0;
  }
  return app.got_subcommand(kGroupMemberCommand) ? serve_group_member() : serve();
}

}  // namespace
}  // namespace shoal::trainer

int main(int argc, char** argv) {
  shoal::trainer::require_thread_environment(argv);
  return shoal::trainer::run(argc, argv);
}
