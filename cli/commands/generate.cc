// shoal generate: the model runs in shoal-trainer, the only binary that knows libtorch; this one
// finds the checkpoint and steps aside.
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/processes.h"
#include "cli/terminal.h"
#include "cli/user_folder.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

Result<std::string> cache_folder(const std::string& checkpoint) {
  const auto root = user_folder("XDG_CACHE_HOME", ".cache", "--checkpoint");
  if (root.ok()) return *root + "/checkpoints/" + checkpoint;
  Error error = root.error();
  error.remedy = "set HOME, or download the checkpoint and give its folder";
  return error;
}

}  // namespace

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
  std::string folder = options.checkpoint;
  std::error_code failure;
  if (!fs::is_directory(folder, failure)) {
    if (folder.find('/') != std::string::npos) {
      return Error{Code::kNotFound, "no such folder: " + folder, "--checkpoint",
                   "give the folder of a downloaded checkpoint, the id of one, or a job"};
    }
    auto found = find_checkpoint(context.api, options.checkpoint);
    if (!found) {
      Error error = found.error();
      if (error.code == Code::kNotFound) error.message += ", nor such a folder here";
      return error;
    }
    auto cache = cache_folder(*found);
    if (!cache) return cache.error();
    folder = std::move(*cache);
    if (auto done = download_checkpoint(context.api, *found, folder); !done) {
      return done.error();
    }
  }
  std::vector<std::string> command =
      generate_arguments(own_folder() + "/shoal-trainer", folder, options);
  if (context.json) command.push_back("--json");
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  execv(command[0].c_str(), arguments.data());
  return Error{Code::kInternal, command[0] + " does not start: " + std::strerror(errno), "",
               "build it with `./dev build`"};
}

}  // namespace shoal::cli
