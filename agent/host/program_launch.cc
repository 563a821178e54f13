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

std::string own_prefix_of(std::int32_t slot) { return std::to_string(slot) + "-"; }

// An empty folder for this start; those of earlier ones in the slot go, as far as they can.
Result<std::string> own_folder(std::int32_t slot, const DataFolder& folder) {
  const fs::path all = fs::path(folder.path()) / "scratch";
  std::error_code error;
  fs::create_directories(all, error);
  for (const std::string& earlier : scratch_folders(slot, folder)) {
    std::error_code ignored;
    fs::remove_all(earlier, ignored);
  }
  const fs::path made = all / (own_prefix_of(slot) + random_hex().substr(0, 8));
  fs::create_directories(made / "tmp", error);
  if (error) return disk_error("make the folder of a program", made.string(), error.value());
  return made.string();
}

// Where the program reads the checkpoints of its job and writes those of its replica.
Status checkpoint_folders(const TrainerIdentity& identity, const HostOptions& options,
                          const DataFolder& folder) {
  const std::string fetched = folder.fetched_folder(identity.job);
  const std::string written = folder.written_folder(identity.replica);
  for (const std::string& each : {fetched, written}) {
    std::error_code error;
    fs::create_directories(each, error);
    if (error) return disk_error("make the folder of a program", each, error.value());
  }
  if (!options.program_user) return {};
  if (Status s = let_read(fetched, *options.program_user); !s.ok()) return s;
  return let_write(written, *options.program_user);
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
  if (own_prefix().has_relative_path()) add({own_prefix().string()});  // else it is the whole host
  add({python_package_path()});
  add(prefixes_of(options.python));
  add(folders_in(variable("PYTHONPATH")));
  add(folders_in(variable("LD_LIBRARY_PATH")));
  add(data_for(start, options.data_roots, folder));
  confinement.exceptions = {code, folder.fetched_folder(start.identity.job)};
  confinement.writable.push_back(folder.written_folder(start.identity.replica));
  confinement.own.push_back(own);
  confinement.processes_max = options.program_bounds.processes;
  confinement.hidden.push_back(folder.path());
  return confinement;
}

Status take_from_code(const StartTrainer& start, const HostOptions& options,
                      const DataFolder& folder, ProcessOptions& process) {
  const TrainerSpec& runs = start.identity.runs;
  const std::string code = code_folder(folder.path(), runs.code);
  std::error_code missing;
  const fs::path program = fs::canonical(fs::path(code) / runs.entry, missing);
  if (missing || !fs::is_regular_file(program)) {
    return Error{Code::kNotFound, "no program " + runs.entry + " is in the code of the job",
                 "trainer.entry", "name a path within the folder that you give to --code"};
  }
  auto own = own_folder(start.trainer.slot, folder);
  if (!own.ok()) return own.error();
  if (Status made = checkpoint_folders(start.identity, options, folder); !made.ok()) {
    return made.error();
  }
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

std::vector<std::string> scratch_folders(std::int32_t slot, const DataFolder& folder) {
  std::vector<std::string> own;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.path() + "/scratch", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(own_prefix_of(slot))) own.push_back(entry.path().string());
  }
  return own;
}

std::string code_folder(const std::string& data_folder, const std::string& code) {
  return data_folder + "/code/" + code.substr(kCodePrefix.size());
}

Status prepare_program(const StartTrainer& start, const HostOptions& options,
                       const DataFolder& folder, ProcessOptions& process) {
  return start.identity.runs.code.empty()
             ? take_from_root(start.identity.runs.entry, options, process)
             : take_from_code(start, options, folder, process);
}

}  // namespace shoal::agent
