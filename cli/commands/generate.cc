// shoal generate and shoal checkpoint export: what runs in shoal-trainer.
#include <filesystem>

#include "cli/commands/trainer_program.h"

namespace shoal::cli {

// The prompt is a word of its own: it may be empty, or look like an option.
std::vector<std::string> generate_arguments(const std::string& binary, const std::string& folder,
                                            const GenerateOptions& options) {
  return {binary,
          "generate",
          "--checkpoint=" + folder,
          "--prompt",
          options.prompt,
          "--tokens=" + std::to_string(options.tokens),
          "--temperature=" + std::to_string(options.temperature),
          "--top-k=" + std::to_string(options.top_k),
          "--seed=" + std::to_string(options.seed)};
}

Result<int> generate(const Context& context, const GenerateOptions& options) {
  const auto folder = local_checkpoint(context, options.checkpoint, "--checkpoint");
  if (!folder) return folder.error();
  std::vector<std::string> command = generate_arguments(trainer_program(), *folder, options);
  if (context.json) command.push_back("--json");
  return become(std::move(command));
}

Result<int> checkpoint_export(const Context& context, const ExportOptions& options) {
  const auto folder = local_checkpoint(context, options.checkpoint, "CHECKPOINT");
  if (!folder) return folder.error();
  std::vector<std::string> command = {
      trainer_program(),          "export",
      "--checkpoint=" + *folder,  "--output=" + options.output,
      "--dtype=" + options.dtype, "--shard-size=" + options.shard_size};
  if (!options.tokenizer.empty()) command.push_back("--tokenizer=" + options.tokenizer);
  if (context.json) command.push_back("--json");
  return become(std::move(command));
}

}  // namespace shoal::cli
