// The agent's folder on disk: locked while the daemon lives, with the identity that the coordinator
// knows it by, the socket, the list of the trainers and their logs, the code of jobs, and
// checkpoint files in transit (agent/core/io.h has their folders). What was fetched outlives a
// start, so that it is not sent again; what trainers wrote does not: the coordinator gives out the
// work again. What a version before 0.2 left in other places is deleted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/core/io.h"
#include "agent/host/program_user.h"
#include "base/result.h"
#include "threads/file_lock.h"

namespace shoal::agent {

class DataFolder {
 public:
  // Creates the folder when needed (mode 0700) and locks it. kConflict when another agent has it.
  static Result<std::unique_ptr<DataFolder>> open(const std::string& path);
  ~DataFolder();
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  // Programs of that user reach what is theirs in it, if they reach the folder itself
  // (check_reach()); the key stays the agent's alone.
  Status let_in(const ProgramUser& user) const;

  // The folders of checkpoints that a process of this identity may reach. The rules that confine it
  // hold for these very folders: they are deleted only by keep_folders_of().
  std::string fetched_folder(JobId job) const;
  std::string written_folder(ReplicaId replica) const;
  // Deletes those of other replicas, and those of other jobs, as far as they are empty.
  void keep_folders_of(const std::vector<TrainerIdentity>& running, bool also_fetched) const;

  const std::string& path() const { return path_; }  // absolute
  const std::string& uid() const { return uid_; }    // 32 hex characters, made once
  // In the folder, or in a private one under /tmp where the path would be too long for a socket.
  // The same at each start.
  const std::string& socket_path() const { return socket_path_; }
  std::string journal_path() const;  // of the daemon and its trainers
  std::string roster_path() const;
  std::string data_cache_path() const { return path_ + "/data_cache"; }
  std::string output_path(std::int32_t slot) const;  // of the trainer in it

 private:
  DataFolder() = default;
  Status lock();
  Status keep_fetched() const;
  Status read_or_make_uid();
  Status choose_socket_path();
  Status make_private_folder();

  std::string path_, uid_, socket_path_, private_folder_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace shoal::agent
