// See trainer_program.h.
#include "cli/commands/trainer_program.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "cli/processes.h"
#include "cli/user_folder.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

Result<std::string> cache_folder(const std::string& checkpoint, const std::string& field) {
  const auto root = user_folder("XDG_CACHE_HOME", ".cache", field);
  if (root.ok()) return *root + "/checkpoints/" + checkpoint;
  Error error = root.error();
  error.remedy = "set HOME, or download the checkpoint and give its folder";
  return error;
}

}  // namespace

Result<std::string> local_checkpoint(const Context& context, const std::string& checkpoint,
                                     const std::string& field) {
  std::error_code failure;
  if (fs::is_directory(checkpoint, failure)) return checkpoint;
  if (checkpoint.find('/') != std::string::npos) {
    return Error{Code::kNotFound, "no such folder: " + checkpoint, field,
                 "give the folder of a downloaded checkpoint, the id of one, or a job"};
  }
  auto found = find_checkpoint(context.api, checkpoint);
  if (!found) {
    Error error = found.error();
    if (error.code == Code::kNotFound) error.message += ", and no folder of that name here";
    return error;
  }
  auto cache = cache_folder(*found, field);
  if (!cache) return cache.error();
  if (auto done = download_checkpoint(context.api, *found, *cache); !done) return done.error();
  return cache;
}

std::string trainer_program() { return own_folder() + "/shoal-trainer"; }

Error become(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  execv(command[0].c_str(), arguments.data());
  return {Code::kInternal, command[0] + " does not start: " + std::strerror(errno), "",
          "install it beside shoal, or build it with `./dev build`"};
}

}  // namespace shoal::cli
