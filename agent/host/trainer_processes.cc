#include "agent/host/trainer_processes.h"

#include <algorithm>
#include <csignal>
#include <fstream>

#include <unistd.h>

#include "agent/host/host_memory.h"
#include "agent/host/program_launch.h"
#include "base/digest.h"

namespace shoal::agent {

Bytes resident_bytes(const std::string& process) {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/" + process + "/statm") >> pages >> resident;
  return Bytes(resident * sysconf(_SC_PAGESIZE));
}

TrainerProcesses::TrainerProcesses(const HostOptions& options, const DataFolder& folder,
                                   std::shared_ptr<const ProgramCgroups> cgroups, Outside outside)
    : options_(options),
      folder_(folder),
      outside_(std::move(outside)),
      cgroups_(std::move(cgroups)),
      watch_(std::make_shared<ProgramWatch>(
          options.program_bounds, cgroups_ != nullptr,
          [post = outside_.post](TrainerId id, const std::string& because) {
            post(TrainerExceeded{id, because});
          })) {}

// ---- those of an earlier start

std::vector<RosterEntry> TrainerProcesses::find_left() {
  const auto roster = read_roster(folder_.roster_path());
  if (!roster.ok()) outside_.note(LogLevel::kWarning, to_string(roster.error()));
  std::vector<RosterEntry> left;
  if (roster.ok() && roster->boot == boot_) {  // else the host was started since
    for (const RosterEntry& entry : roster->trainers) {
      if (adopt(entry, why_not_adopted(*roster, entry))) left.push_back(entry);
    }
  }
  folder_.keep_folders_of(identities(), true);
  return left;
}

std::vector<TrainerIdentity> TrainerProcesses::identities() const {
  std::vector<TrainerIdentity> all;
  for (const auto& [slot, process] : processes_) {
    all.push_back(entries_.at(slot).identity.value_or(TrainerIdentity()));
  }
  return all;
}

// Empty: the process is what this daemon would start there. A GPU that is gone ends its own
// trainers only.
std::string TrainerProcesses::why_not_adopted(const Roster& roster,
                                              const RosterEntry& entry) const {
  if (roster.settings != settings(!entry.gpus)) return "the flags of this agent have changed";
  const auto devices = static_cast<std::int32_t>(options_.core.devices.size());
  const std::int32_t slot = entry.trainer.slot;
  const bool is_there = entry.device >= 0 && entry.device < devices &&
                        entry.gpus.value_or(own_gpus(entry.device)) == own_gpus(entry.device);
  if (!is_there) return "its GPU is not there any more, or is not lent";
  if (slot < devices && slot != entry.device) return "a GPU that has come has its number";
  return {};
}

bool TrainerProcesses::adopt(const RosterEntry& entry, const std::string& why_not) {
  const std::int32_t slot = entry.trainer.slot;
  const bool fits = why_not.empty();
  auto end = fits ? end_of(entry.trainer) : [](const ProcessExit&) {};
  auto process = TrainerProcess::adopt(entry.process, options_of(slot), std::move(end));
  if (!process.ok()) return false;
  const std::string name = "trainer " + std::to_string(slot) + ", process " +
                           std::to_string(entry.process.pid) + " of the last start, ";
  if (!fits) {
    outside_.note(LogLevel::kWarning, name + "is ended: " + why_not);
    return false;
  }
  outside_.note(LogLevel::kInfo, name + "is awaited");
  processes_[slot] = std::move(process).value();
  entries_[slot] = entry;
  entries_[slot].gpus = own_gpus(entry.device);
  watch(entry);
  return true;
}

// A trainer that was started with other settings is not what the daemon was asked for. Settings of
// later versions count at the end, and only where they are used: the trainers of an agent that did
// not have them yet continue under one that has. Which GPUs there are is not part of them, nor what
// follows from their number, because each trainer is compared with its own GPU; with_gpus: they
// are, as in lists of before version 3.
std::string TrainerProcesses::settings(bool with_gpus) const {
  const bool by_gpu = !options_.gpus.empty() && !with_gpus;
  Digester digester;
  if (by_gpu) digester.add("gpus");
  for (const Device& device : options_.core.devices) {
    if (!by_gpu) digester.add(static_cast<std::int32_t>(device.kind)).add(device.name);
  }
  digester.add(options_.core.host)
      .add(by_gpu && options_.threads_by_devices ? 0 : options_.threads)
      .add(options_.replica_group)
      .add(options_.speed);
  digester.add(options_.data_roots.to_text());
  digester.add(options_.emulated_link).add(options_.peer_ports.first).add(options_.peer_ports.last);
  const HostOptions usual;
  const auto add_later = [&](std::string_view name, const auto& value, const auto& without) {
    if (value != without) digester.add(name).add(value);
  };
  add_later("trainer_root", options_.trainer_root, usual.trainer_root);
  add_later("python", options_.python, usual.python);
  for (const std::string& owner : options_.core.programs.code_from) {
    add_later("code_from", owner, std::string());
  }
  for (const std::string& gpu : options_.gpus) {
    if (!by_gpu) add_later("gpu", gpu, std::string());
  }
  if (options_.program_user) add_later("program_user", options_.program_user->name, std::string());
  return to_hex(digester.finish());
}

// ---- starting and ending

void TrainerProcesses::start(const StartTrainer& effect, const std::string& nonce) {
  const TrainerId id = effect.trainer;
  processes_.erase(id.slot);                     // has ended, or the core would not start another
  folder_.keep_folders_of(identities(), false);  // fetches of other jobs may have just begun
  auto process = launch(effect, nonce);
  if (!process.ok()) {
    if (cgroups_ != nullptr) cgroups_->remove(id);
    return outside_.post(TrainerExited{id, {127, 0, to_string(process.error())}});
  }
  RosterEntry& entry = entries_[id.slot];
  entry.trainer = id;
  entry.device = effect.device;
  entry.process = (*process)->id();
  entry.nonce = nonce;
  entry.identity = effect.identity;
  entry.gpus = own_gpus(effect.device);
  processes_[id.slot] = std::move(process).value();
  watch(entry);
  write();
}

void TrainerProcesses::watch(const RosterEntry& entry) {
  if (!entry.identity || entry.identity->runs.kind != TrainerKind::kPython) return;
  std::vector<std::string> folders = scratch_folders(entry.trainer.slot, folder_);
  folders.push_back(folder_.written_folder(entry.identity->replica));
  watch_->add({entry.trainer, entry.process, std::move(folders)});
}

Result<std::unique_ptr<TrainerProcess>> TrainerProcesses::launch(const StartTrainer& effect,
                                                                 const std::string& nonce) {
  auto own = environment(effect, nonce);
  if (!own.ok()) return own.error();
  ProcessOptions options = options_of(effect.trainer.slot);
  options.environment = std::move(own).value();
  if (effect.identity.runs.kind == TrainerKind::kPython) {
    const Status ready = prepare_program(effect, options_, folder_, options);
    if (!ready.ok()) return ready.error();
    if (cgroups_ != nullptr) {
      auto group = cgroups_->make(effect.trainer);
      if (!group.ok()) return group.error();
      options.cgroup = std::move(group).value();
    }
  }
  return TrainerProcess::start(options, end_of(effect.trainer));
}

ProcessOptions TrainerProcesses::options_of(std::int32_t slot) const {
  return {.program = options_.trainer,
          .output = folder_.output_path(slot),
          .on_line = outside_.lines(slot),
          .on_left_out = outside_.lost_output};
}

std::function<void(ProcessExit)> TrainerProcesses::end_of(TrainerId id) const {
  return [post = outside_.post, cgroups = cgroups_, watch = watch_, id,
          killed_before = killed_for_memory()](ProcessExit exit) {
    watch->remove(id);
    exit.for_memory = exit.signal == SIGKILL && killed_for_memory() > killed_before;
    if (cgroups != nullptr) {
      if (std::string why = cgroups->why_ended(id); !why.empty()) exit.last_line = std::move(why);
      cgroups->remove(id);
    }
    post(TrainerExited{id, std::move(exit)});
  };
}

void TrainerProcesses::identify(const IdentifyTrainer& effect) {
  const auto entry = entries_.find(effect.trainer.slot);
  if (entry == entries_.end() || entry->second.trainer != effect.trainer) return;
  const bool was_known = entry->second.identity.has_value();
  entry->second.identity = effect.identity;
  if (!was_known) watch(entry->second);
  write();
}

void TrainerProcesses::kill(std::int32_t slot, bool hard) {
  const auto process = processes_.find(slot);
  if (process != processes_.end()) process->second->kill(hard);
}

void TrainerProcesses::leave() {
  for (auto& [slot, process] : processes_) process->leave();
}

std::map<std::int32_t, Bytes> TrainerProcesses::resident() const {
  std::map<std::int32_t, Bytes> bytes;
  for (const auto& [slot, process] : processes_) {
    bytes[slot] = resident_bytes(std::to_string(process->id().pid));
  }
  return bytes;
}

std::set<pid_t> TrainerProcesses::leaders() const {
  std::set<pid_t> all;
  for (const auto& [slot, process] : processes_) all.insert(process->id().pid);
  return all;
}

void TrainerProcesses::write() {
  Roster roster{boot_, settings(false), {}};
  for (const auto& [slot, process] : processes_) roster.trainers.push_back(entries_.at(slot));
  const Status written = write_roster(folder_.roster_path(), roster);
  if (written.ok()) return;
  outside_.note(LogLevel::kWarning,
                "the next start will not find its trainers again: " + to_string(written.error()));
}

// A further trainer of a device gets its part of the device's threads.
Result<std::vector<std::string>> TrainerProcesses::environment(const StartTrainer& effect,
                                                               const std::string& nonce) {
  const TrainerId id = effect.trainer;
  const Device& device = options_.core.devices[static_cast<std::size_t>(effect.device)];
  const std::string listen_host = listen_host_for(options_.core.host);
  std::vector<int> taken;
  for (const auto& [slot, entry] : entries_) {
    if (slot != id.slot) taken.push_back(entry.port);
  }
  const auto seed = Digester().add(folder_.uid()).add(id.generation).finish().low;
  const auto port = free_port(options_.peer_ports, listen_host, taken, seed);
  if (!port.ok()) return port.error();
  entries_[id.slot].port = *port;
  const std::string threads = std::to_string(std::max(1, options_.threads / (effect.beside + 1)));
  return std::vector<std::string>{
      "SHOAL_TRAINER_SOCKET=" + folder_.socket_path(),
      "SHOAL_TRAINER_SLOT=" + std::to_string(id.slot),
      "SHOAL_TRAINER_NONCE=" + nonce,
      "SHOAL_TRAINER_ORPHAN_LIMIT=" + std::to_string(options_.orphan_limit.ms() / 1000),
      "SHOAL_TRAINER_DEVICE=" + std::to_string(effect.device),
      std::string("SHOAL_TRAINER_KIND=") + to_string(device.kind),
      "SHOAL_TRAINER_THREADS=" + threads,
      "SHOAL_TRAINER_REPLICA_GROUP=" + std::to_string(options_.replica_group),
      "SHOAL_TRAINER_SPEED=" + std::to_string(options_.speed),
      "SHOAL_TRAINER_LINK=" + options_.emulated_link,
      "SHOAL_TRAINER_CERTIFICATES=1",
      "SHOAL_DATA_ROOTS=" + options_.data_roots.to_text(),
      "SHOAL_TRAINER_BIND=" + HostPort{listen_host, static_cast<std::uint16_t>(*port)}.text(),
      "SHOAL_TRAINER_HOST=" + options_.core.host,
      "OPENBLAS_NUM_THREADS=" + threads,
      "OMP_NUM_THREADS=" + threads,
      "CUDA_VISIBLE_DEVICES=" + own_gpus(effect.device)};
}

// What a trainer may see: its own GPU, or those of its replica group. Nothing on a CPU.
std::string TrainerProcesses::own_gpus(std::int32_t device) const {
  if (options_.gpus.empty()) return {};
  if (options_.replica_group == 1) return options_.gpus[static_cast<std::size_t>(device)];
  std::string all;
  for (const std::string& gpu : options_.gpus) all += (all.empty() ? "" : ",") + gpu;
  return all;
}

}  // namespace shoal::agent
