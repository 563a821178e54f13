// The trainer processes of this host by their slots: started with their environment, listed in the
// roster of the data folder, found again by the next start of the daemon, killed.
//
// One thread at a time; `post` and the lines come from threads of the processes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/host/data_folder.h"
#include "agent/host/host_options.h"
#include "agent/host/program_cgroup.h"
#include "agent/host/program_watch.h"
#include "agent/host/roster.h"
#include "agent/host/trainer_process.h"
#include "base/log_lines.h"

namespace shoal::agent {

class TrainerProcesses {
 public:
  struct Outside {
    std::function<void(Input)> post;                                  // TrainerExited
    std::function<std::function<void(std::string_view)>(int)> lines;  // where those of a slot go
    std::function<void(LogLevel, const std::string&)> note;           // for people
    std::function<void(Bytes)> lost_output = {};                      // what the log lacks
  };
  // The arguments must outlive it. `cgroups`: of programs; null: the agent watches them.
  TrainerProcesses(const HostOptions& options, const DataFolder& folder,
                   std::shared_ptr<const ProgramCgroups> cgroups, Outside outside);

  // The trainers of the last start that still live, were started with the flags of this daemon, and
  // whose GPUs are still lent under their numbers (device_numbers.h). Its other trainers are killed
  // and waited for. Only exact matches of the roster are touched: process, start time and user.
  std::vector<RosterEntry> find_left();

  // TrainerExited is posted at its end, also when it could not be started.
  void start(const StartTrainer& effect, const std::string& nonce);
  // From now on the process is that replica, also for the next start of the daemon.
  void identify(const IdentifyTrainer& effect);
  void kill(std::int32_t slot, bool hard);
  void leave();  // all of them, to the next start

  std::map<std::int32_t, Bytes> resident() const;  // memory of each, by slot
  std::set<pid_t> leaders() const;                 // the processes that this agent started

 private:
  std::string why_not_adopted(const Roster& roster, const RosterEntry& entry) const;
  bool adopt(const RosterEntry& entry, const std::string& why_not);  // empty: it fits
  std::vector<TrainerIdentity> identities() const;  // of the processes that are there
  void watch(const RosterEntry& entry);             // if it is a program
  ProcessOptions options_of(std::int32_t slot) const;
  std::function<void(ProcessExit)> end_of(TrainerId id) const;
  Result<std::unique_ptr<TrainerProcess>> launch(const StartTrainer& effect,
                                                 const std::string& nonce);
  std::string own_gpus(std::int32_t device) const;
  Result<std::vector<std::string>> environment(const StartTrainer& effect,
                                               const std::string& nonce);
  std::string settings(bool with_gpus) const;
  void write();

  const HostOptions& options_;
  const DataFolder& folder_;
  const Outside outside_;
  const std::string boot_ = boot_id();
  const std::shared_ptr<const ProgramCgroups> cgroups_;
  const std::shared_ptr<ProgramWatch> watch_;
  std::map<std::int32_t, RosterEntry> entries_;
  std::map<std::int32_t, std::unique_ptr<TrainerProcess>> processes_;
};

Bytes resident_bytes(const std::string& process);  // "self" or a number

}  // namespace shoal::agent
