// shoal admin: work on the files of a coordinator on this host. Becomes shoal-coordinator, which is
// the program that knows them.
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/processes.h"

namespace shoal::cli {
namespace {

// Returns only when that fails.
Result<int> become_coordinator(std::vector<std::string> arguments, bool json) {
  const std::string binary = own_folder() + "/shoal-coordinator";
  arguments.insert(arguments.begin(), binary);
  if (json) arguments.push_back("--json");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv(binary.c_str(), pointers.data());
  return Error{Code::kInternal, binary + " does not start: " + std::strerror(errno), "",
               "install it beside shoal"};
}

}  // namespace

Result<int> admin_backup(const BackupOptions& options, bool json) {
  std::vector<std::string> arguments = {"backup", "--to=" + options.to};
  if (!options.data_dir.empty()) arguments.push_back("--data-dir=" + options.data_dir);
  return become_coordinator(std::move(arguments), json);
}

Result<int> admin_restore_check(const std::string& folder, bool json) {
  return become_coordinator({"restore-check", folder}, json);
}

}  // namespace shoal::cli
