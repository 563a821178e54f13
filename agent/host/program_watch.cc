#include "agent/host/program_watch.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/children.h"
#include "threads/sleep.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kShareOfTime = 20;  // of the time, the sizes of files get one part
constexpr int kPassesMax = 16;    // until no process is new

std::pair<pid_t, std::uint64_t> key_of(const ProcessEntry& process) {
  return {process.id.pid, process.id.started};
}

// Blocks on the disk; none: more than kFilesMax files. What is linked N times counts as one file.
std::optional<Bytes> size_of(const std::vector<std::string>& folders) {
  std::int64_t bytes = 0, files = 0;
  for (const std::string& folder : folders) {
    std::error_code gone;
    for (fs::recursive_directory_iterator it(folder, gone), end; !gone && it != end;
         it.increment(gone)) {
      struct stat info {};
      if (::lstat(it->path().c_str(), &info) != 0) continue;
      const auto links = S_ISDIR(info.st_mode) ? 1 : static_cast<std::int64_t>(info.st_nlink);
      bytes += std::int64_t{512} * info.st_blocks / std::max<std::int64_t>(1, links);
      if (++files > ProgramWatch::kFilesMax) return std::nullopt;
    }
  }
  return Bytes(bytes);
}

}  // namespace

ProgramWatch::ProgramWatch(const ProgramBounds& bounds, bool only_disk, Over over, Duration every)
    : bounds_(bounds),
      only_disk_(only_disk),
      over_(std::move(over)),
      every_(every),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void ProgramWatch::add(WatchedProgram program) {
  const MutexLock guard(mutex_);
  const std::int32_t slot = program.trainer.slot;
  programs_[slot] = std::move(program);
}

void ProgramWatch::remove(TrainerId trainer) {
  const MutexLock guard(mutex_);
  const auto found = programs_.find(trainer.slot);
  if (found != programs_.end() && found->second.trainer == trainer) programs_.erase(found);
}

void ProgramWatch::run(const std::stop_token& stop) {
  while (sleep_unless_stopped(every_, stop)) look();
}

void ProgramWatch::take_programs() {
  const MutexLock guard(mutex_);
  std::erase_if(watched_, [&](const auto& entry) SHOAL_REQUIRES(mutex_) {
    const auto now = programs_.find(entry.first);
    return now == programs_.end() || now->second.trainer != entry.second.program.trainer;
  });
  for (const auto& [slot, program] : programs_) {
    watched_.try_emplace(slot, Watched{.program = program, .members = {}});
  }
}

void ProgramWatch::look() {
  take_programs();
  if (watched_.empty()) return;
  const Processes all = only_disk_ ? Processes() : all_processes();
  for (auto& [slot, watched] : watched_) {
    if (watched.over) continue;
    std::string because = exceeded(watched, all);
    if (because.empty()) because = exceeded_on_disk(watched);
    if (because.empty()) continue;
    watched.over = true;
    over_(watched.program.trainer, because);
    end(watched);
  }
  end_strays(all);
}

ProgramWatch::Processes ProgramWatch::members_of(Watched& watched, const Processes& all) {
  const ProcessId& leader = watched.program.process;
  std::multimap<pid_t, const ProcessEntry*> children;
  Processes members;
  const auto take = [&](const ProcessEntry& process) {
    watched.members.insert(key_of(process));
    members.push_back(process);
  };
  std::set<std::pair<pid_t, std::uint64_t>> taken;
  for (const ProcessEntry& process : all) {
    children.emplace(process.parent, &process);
    if (process.ended) continue;
    const bool mine = process.id == leader || process.session == leader.pid ||
                      watched.members.contains(key_of(process));
    if (mine && taken.insert(key_of(process)).second) take(process);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto [first, last] = children.equal_range(members[i].id.pid);
    for (auto it = first; it != last; ++it) {
      const bool lives = !it->second->ended;
      if (lives && taken.insert(key_of(*it->second)).second) take(*it->second);
    }
  }
  watched.members = std::move(taken);  // those that have ended are forgotten
  return members;
}

std::string ProgramWatch::exceeded(Watched& watched, const Processes& all) const {
  if (only_disk_) return {};
  const Processes members = members_of(watched, all);
  std::int64_t threads = 0;
  Bytes resident;
  for (const ProcessEntry& each : members) {
    threads += each.threads;
    resident += each.resident;
  }
  if (std::string many = over_processes(threads, bounds_); !many.empty()) return many;
  if (over_memory(resident, bounds_).empty()) return {};
  Bytes memory;  // without what is counted several times
  for (const ProcessEntry& each : members) memory += proportional_memory(each);
  return over_memory(memory, bounds_);
}

std::string ProgramWatch::exceeded_on_disk(Watched& watched) const {
  const auto begun = Clock::now();
  if (begun < watched.sized_at) return {};
  const auto size = size_of(watched.program.folders);
  watched.sized_at = Clock::now() + kShareOfTime * (Clock::now() - begun);
  if (size) return over_disk(*size, bounds_);
  return "it has more than " + std::to_string(kFilesMax) + " files, which no flag allows";
}

// Stopped ones start no others, so that the passes come to an end.
void ProgramWatch::end(Watched& watched) {
  std::set<std::pair<pid_t, std::uint64_t>> stopped;
  Processes members;
  for (int pass = 0; pass < kPassesMax; ++pass) {
    members = members_of(watched, all_processes());
    bool any = false;
    for (const ProcessEntry& each : members) {
      if (stopped.insert(key_of(each)).second) any |= signal_process(each.id, SIGSTOP);
    }
    if (!any) break;
  }
  for (const ProcessEntry& each : members) signal_process(each.id, SIGKILL);
}

void ProgramWatch::end_strays(const Processes& all) const {
  std::set<std::pair<pid_t, std::uint64_t>> known;
  for (const auto& [slot, watched] : watched_) {
    known.insert(watched.members.begin(), watched.members.end());
  }
  for (const ProcessEntry& each : all) {
    const bool member = !each.ended && known.contains(key_of(each));
    if (each.parent != ::getpid() || member) continue;
    if (!Children::of_this_process().is_orphan(each.id.pid)) continue;
    signal_process(each.id, SIGKILL);
    ::waitpid(each.id.pid, nullptr, WNOHANG);
  }
}

}  // namespace shoal::agent
