// shoal generate: the model runs in shoal-trainer, the only binary that knows libtorch; this one
// finds the checkpoint and steps aside.
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/processes.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

std::string cache_folder(const std::string& checkpoint) {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string root =
      xdg && *xdg ? xdg : std::string(home && *home ? home : "/tmp") + "/.cache";
  return root + "/shoal/checkpoints/" + checkpoint;
}

}  // namespace

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
    folder = cache_folder(*found);
    if (auto done = download_checkpoint(context.api, *found, folder); !done) {
      return done.error();
    }
  }
  const std::string binary = own_folder() + "/shoal-trainer";
  std::vector<std::string> command = {binary,
                                      "generate",
                                      "--checkpoint=" + folder,
                                      "--prompt=" + options.prompt,
                                      "--tokens=" + std::to_string(options.tokens),
                                      "--temperature=" + std::to_string(options.temperature),
                                      "--top-k=" + std::to_string(options.top_k),
                                      "--seed=" + std::to_string(options.seed)};
  if (context.json) command.push_back("--json");
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  execv(binary.c_str(), arguments.data());
  return Error{Code::kInternal, binary + " does not start: " + std::strerror(errno), "",
               "build it with `./dev build`"};
}

}  // namespace shoal::cli
