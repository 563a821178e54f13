#include "agent/host/program_launch.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "agent/core/io.h"
#include "agent/host/roster.h"
#include "job/data_rules.h"
#include "transfer/disk.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;

// Names in the environment that say how to use this host, and nothing about it that is secret.
constexpr const char* kInherited[] = {
    "PATH=", "LANG=", "LC_",   "TZ=",  "LD_LIBRARY_PATH=", "CUDA_",   "NVIDIA_", "NCCL_",
    "HIP_",  "HSA_",  "ROCR_", "MKL_", "TORCH_",           "PYTORCH_"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> folders_in(const std::string& list) {
  std::vector<std::string> folders;
  std::istringstream in(list);
  for (std::string folder; std::getline(in, folder, ':');) {
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

fs::path own_prefix() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
}

// The package `shoal` of this program: beside a build's bin, or where it was installed.
std::string python_package_path() {
  std::error_code error;
  const fs::path built = own_prefix() / "python";
  return (fs::exists(built / "shoal", error) ? built : own_prefix() / "lib/shoal/python").string();
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto [end, _] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

// As execvp finds it.
fs::path found_in_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return fs::absolute(program);
  std::error_code error;
  for (const std::string& folder : folders_in(variable("PATH"))) {
    const fs::path there = fs::path(folder) / program;
    if (fs::is_regular_file(there, error)) return there;
  }
  return program;
}

// The folder of the interpreter: a virtual environment, and the installation that it belongs to.
std::vector<std::string> prefixes_of(const std::string& python) {
  const fs::path found = found_in_path(python);
  std::error_code error;
  std::vector<std::string> prefixes;
  for (const fs::path& each : {found, fs::canonical(found, error)}) {
    const fs::path prefix = each.parent_path().parent_path();
    if (prefix.has_relative_path()) prefixes.push_back(prefix.string());
  }
  return prefixes;
}

void add_python(const HostOptions& options, const fs::path& program, ProcessOptions& process) {
  process.program = options.python;
  process.arguments = {program.string()};
  const std::string path = variable("PYTHONPATH");
  process.environment.push_back("PYTHONPATH=" + python_package_path() +
                                (path.empty() ? "" : ":" + path));
  process.environment.push_back("PYTHONUNBUFFERED=1");
}

// A link may lead to it, but not out of the root.
Status take_from_root(const std::string& entry, const HostOptions& options,
                      ProcessOptions& process) {
  std::error_code missing;
  const fs::path root = fs::canonical(options.trainer_root, missing);
  const fs::path program = fs::canonical(root / entry, missing);
  if (missing || !lies_in(program, root) || !fs::is_regular_file(program)) {
    return Error{Code::kNotFound,
                 "no program " + entry + " lies beneath " + options.trainer_root + " on this host",
                 "trainer.entry", "put it there, on every agent's host"};
  }
  add_python(options, program, process);
  return {};
}

// ---- uploaded code

// An empty folder for this start; those of earlier ones in the slot go, as far as they can.
Result<std::string> own_folder(std::int32_t slot, const DataFolder& folder) {
  const fs::path all = fs::path(folder.path()) / "scratch";
  const std::string mine = std::to_string(slot) + "-";
  std::error_code error;
  fs::create_directories(all, error);
  for (const auto& entry : fs::directory_iterator(all, error)) {
    std::error_code ignored;
    if (entry.path().filename().string().starts_with(mine)) fs::remove_all(entry.path(), ignored);
  }
  const fs::path made = all / (mine + random_hex().substr(0, 8));
  fs::create_directories(made / "tmp", error);
  if (error) return disk_error("make the folder of a program", made.string(), error.value());
  return made.string();
}

// The data roots. In place of a root that contains the agent's own folder, which is most likely the
// whole host: the file of the job and the folder that it lies in.
std::vector<std::string> data_for(const StartTrainer& start, const data::DataRoots& roots,
                                  const DataFolder& folder) {
  const DataPath named = parse_data_path(start.data);
  std::vector<std::string> readable;
  for (const data::DataRoot& root : roots.all()) {
    if (!lies_in(folder.path(), root.folder)) {
      readable.push_back(root.folder);
    } else if (named.root.empty() || root.name == named.root) {
      const fs::path file = (fs::path(root.folder) / named.path).lexically_normal();
      if (!lies_in(file, root.folder)) continue;
      readable.push_back(file.string());  // the rule follows a link
      const fs::path beside = file.parent_path();
      if (!lies_in(folder.path(), beside)) readable.push_back(beside.string());
    }
  }
  return readable;
}

Confinement confinement_of(const StartTrainer& start, const HostOptions& options,
                           const DataFolder& folder, const std::string& code,
                           const std::string& own) {
  Confinement confinement = system_confinement();
  auto& readable = confinement.readable;
  const auto add = [&](const std::vector<std::string>& more) {
    readable.insert(readable.end(), more.begin(), more.end());
  };
  add({own_prefix().string(), python_package_path()});
  add(prefixes_of(options.python));
  add(folders_in(variable("PYTHONPATH")));
  add(folders_in(variable("LD_LIBRARY_PATH")));
  add(data_for(start, options.data_roots, folder));
  confinement.exceptions = {code, folder.path() + "/" + kFetchedFolder};
  confinement.writable.push_back(folder.path() + "/" + kWrittenFolder);
  confinement.own.push_back(own);
  confinement.hidden.push_back(folder.path());
  return confinement;
}

Status take_from_code(const StartTrainer& start, const HostOptions& options,
                      const DataFolder& folder, ProcessOptions& process) {
  const TrainerSpec& runs = start.runs;
  const std::string code = code_folder(folder.path(), runs.code);
  std::error_code missing;
  const fs::path program = fs::canonical(fs::path(code) / runs.entry, missing);
  if (missing || !fs::is_regular_file(program)) {
    return Error{Code::kNotFound, "no program " + runs.entry + " is in the code of the job",
                 "trainer.entry", "name a path within the folder that you give to --code"};
  }
  auto own = own_folder(start.trainer.slot, folder);
  if (!own.ok()) return own.error();
  if (options.program_user) {
    if (Status s = let_read(code, *options.program_user); !s.ok()) return s.error();
    if (Status s = give(*own, *options.program_user); !s.ok()) return s.error();
    process.user = options.program_user;
  }
  auto rules = ConfinementRules::make(confinement_of(start, options, folder, code, *own));
  if (!rules.ok()) return rules.error();
  process.rules = std::make_shared<ConfinementRules>(std::move(rules).value());
  process.folder = *own;
  process.inherited.assign(std::begin(kInherited), std::end(kInherited));
  add_python(options, program, process);
  process.environment.push_back("PYTHONDONTWRITEBYTECODE=1");
  process.environment.push_back("HOME=" + *own);
  process.environment.push_back("TMPDIR=" + *own + "/tmp");
  return {};
}

}  // namespace

std::string code_folder(const std::string& data_folder, const std::string& code) {
  return data_folder + "/code/" + code.substr(kCodePrefix.size());
}

Status prepare_program(const StartTrainer& start, const HostOptions& options,
                       const DataFolder& folder, ProcessOptions& process) {
  return start.runs.code.empty() ? take_from_root(start.runs.entry, options, process)
                                 : take_from_code(start, options, folder, process);
}

}  // namespace shoal::agent
