// What goes into the agent's core and what comes out of it. Two drivers perform the effects:
// agent/host (gRPC, processes, files) and tests/sim (virtual time).
//
// Effects are performed in order. Late news is harmless: the core gives a number to every link that
// it opens and to every trainer process that it starts, each input about one carries that number,
// and the core drops an input with an old number. A driver never has to decide whether news is
// still relevant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "messages/trainer_messages.h"

namespace shoal::agent {

// One attempt to reach the coordinator: 1, 2, … within one start of the daemon.
struct LinkId {
  std::uint64_t n = 0;
  auto operator<=>(const LinkId&) const = default;
};

// One trainer process: its slot and which start of that slot it is. Slots 0, 1, … are the devices
// in the order of Options::devices; those after them are further trainers of a device that holds
// several replicas.
struct TrainerId {
  std::int32_t slot = 0;
  std::uint64_t generation = 0;
  auto operator<=>(const TrainerId&) const = default;
};

// How a process ended. A process that could not be started has code 127, and the reason as its last
// line.
struct ProcessExit {
  int code = 0;
  int signal = 0;              // 0: it exited by itself
  std::string last_line = {};  // of its standard error, may be empty
  // False: code and signal are unknown. Only the parent learns them, and that was an earlier start
  // of the daemon.
  bool known = true;
  // Ended by SIGKILL, while the kernel ended processes of this host for want of memory.
  bool for_memory = false;
};

// The files of one stage of a checkpoint: what one replica writes or loads. A stage of another cut
// loads those of several stages.
struct CheckpointPartId {
  CheckpointId checkpoint;
  StageIndex stage = 0;
  bool weights = false;    // only the weights, for a job that begins with them: files of all stages
  JobId reader = {};       // of a fetch: the job that loads it; each job has files of its own
  std::int32_t parts = 0;  // from `stage` on, for a stage of another cut; 0: one
  auto operator<=>(const CheckpointPartId&) const = default;
};
constexpr auto fields_of(Of<CheckpointPartId>) {
  using T = CheckpointPartId;
  return fields<&T::checkpoint, &T::stage, &T::weights, &T::reader, &T::parts>();
}

// Which replica a trainer process is, as the core decided when it started or loaded it. The driver
// keeps it with the process, across restarts of the daemon, and gives certificates and data of that
// replica to this process only.
struct TrainerIdentity {
  TrainerSpec runs = {};   // the program of a job, or the trainer; fixed for the process's life
  ReplicaId replica = {};  // that it was given last; none: no replica yet
  JobId job = {};          // of that replica
  StageIndex stage = 0;    // of that replica
  bool operator==(const TrainerIdentity&) const = default;
};
constexpr auto fields_of(Of<TrainerIdentity>) {
  using T = TrainerIdentity;
  return fields<&T::runs, &T::replica, &T::job, &T::stage>();
}

// A running trainer that an earlier start of the daemon left. It is expected to attach again.
struct LeftTrainer {
  TrainerId trainer;
  std::int32_t device = 0;
  std::optional<TrainerIdentity> identity = {};  // none: the roster is of a version without it
};

// ---- inputs

struct Booted {  // first input, HostMeasured aside
  std::vector<LeftTrainer> left = {};
};
struct LinkUp {  // the stream is open and Hello is on its way
  LinkId link;
};
// The link could not be opened, broke or was closed. kUnauthenticated, kPermissionDenied and
// kIncompatible are final; any other code is worth a retry.
struct LinkDown {
  LinkId link;
  Error error;
};
struct CoordinatorSaid {
  LinkId link;
  ToAgent message;
};

struct TrainerAttached {  // its first message
  TrainerId trainer;
  TrainerReady ready;
};
struct TrainerSaid {
  TrainerId trainer;
  FromTrainer message;
};
struct TrainerDetached {  // its stream ended; the process is still there
  TrainerId trainer;
};
struct TrainerOverstepped {  // it asked for the certificate or the data of a replica it is not
  TrainerId trainer;
  ReplicaId asked;
};
struct TrainerExceeded {  // its program takes more of the host than it may; it is to be killed
  TrainerId trainer;
  std::string because;  // what of which bound
};
struct TrainerExited {
  TrainerId trainer;
  ProcessExit exit;
};

struct CheckpointFetched {  // complete and verified in the folder named
  CheckpointPartId part;
};
// Posted when the fetch begins, about once a second, and before its end is posted.
struct CheckpointFetchMoved {
  CheckpointPartId part;
  Bytes done, total;
};
struct CheckpointFetchFailed {
  CheckpointPartId part;
  Error error;
};
struct CheckpointHashed {
  CheckpointPartId part;
  std::vector<FileEntry> files;
};
struct CheckpointHashFailed {
  CheckpointPartId part;
  Error error;
};
struct CheckpointUploadMoved {  // posted at the same times as CheckpointFetchMoved
  CheckpointPartId part;
  Bytes done;  // what the coordinator has stored
};
struct CheckpointUploadDone {
  CheckpointPartId part;
};
struct CheckpointUploadFailed {
  CheckpointPartId part;
  Error error;
};

// The same for the code of jobs (trainer.code).
struct CodeFetched {  // complete, verified and unpacked
  std::string code;
};
struct CodeFetchMoved {
  std::string code;
  Bytes done, total;
};
struct CodeFetchFailed {
  std::string code;
  Error error;
};

// What replicas of this agent may take of a device now (device_memory.h).
struct MeasuredMemory {
  std::string uuid;
  Bytes memory;
};
constexpr auto fields_of(Of<MeasuredMemory>) {
  return fields<&MeasuredMemory::uuid, &MeasuredMemory::memory>();
}

// For the heartbeats: the memory of the agent and its trainers, the figures of its relay, if it has
// one, and what is known of its devices now. A device that is not in `memory` could not be read.
// The only input that may come before Booted, so that the first Hello has the memory that was read.
struct HostMeasured {
  Bytes resident;
  std::optional<RelayFigures> relay = {};
  std::vector<DeviceSample> samples = {};
  std::vector<MeasuredMemory> memory = {};
};
constexpr auto fields_of(Of<HostMeasured>) {
  using T = HostMeasured;
  return fields<&T::resident, &T::relay, &T::samples, &T::memory>();
}
struct StopRequested {};      // first: drain; second: now
struct HandOverRequested {};  // end at once, and leave the trainers to the next start of the daemon
struct Tick {};               // a deadline has passed

using Input =
    std::variant<Booted, LinkUp, LinkDown, CoordinatorSaid, TrainerAttached, TrainerSaid,
                 TrainerDetached, TrainerOverstepped, TrainerExceeded, TrainerExited,
                 CheckpointFetched, CheckpointFetchMoved, CheckpointFetchFailed, CheckpointHashed,
                 CheckpointHashFailed, CheckpointUploadMoved, CheckpointUploadDone,
                 CheckpointUploadFailed, CodeFetched, CodeFetchMoved, CodeFetchFailed, HostMeasured,
                 StopRequested, HandOverRequested, Tick>;

// ---- effects

struct OpenLink {  // answered by LinkUp or LinkDown
  LinkId link;
  Hello hello;
};
// What was sent before is flushed first, within a second. No LinkDown is expected after it.
struct CloseLink {
  LinkId link;
};
struct SendCoordinator {
  LinkId link;
  FromAgent message;
};

// Answered by TrainerAttached or TrainerExited.
struct StartTrainer {
  TrainerId trainer;
  std::int32_t device = 0;
  std::int32_t beside = 0;        // other trainers of that device: they share its threads
  TrainerIdentity identity = {};  // a program has its replica from its start on
  std::string data = {};          // what a program reads (DataSpec::train)
};
// Comes before the LoadReplica that gives a process another replica, and when the coordinator has
// confirmed what a trainer of an earlier version said of itself.
struct IdentifyTrainer {
  TrainerId trainer;
  TrainerIdentity identity;
};
struct KillTrainer {  // SIGKILL or SIGTERM to its process group
  TrainerId trainer;
  bool hard = false;
  std::string because;  // for people; empty: it is no longer needed
};
struct SendTrainer {
  TrainerId trainer;
  ToTrainer message;
};

// Fetches into `folder` the files of a stored checkpoint that a replica of this stage needs, and
// continues behind what an earlier fetch left there. Answered by CheckpointFetched or
// CheckpointFetchFailed.
struct FetchCheckpoint {
  CheckpointPartId part;
  std::string folder;
};
// Compares the files with what their writer reported (none: of protocol 4). Answered by
// CheckpointHashed or CheckpointHashFailed.
struct HashCheckpoint {
  CheckpointPartId part;
  std::string folder;
  std::vector<FileEntry> reported = {};
};
// Continues where the coordinator says. Answered by CheckpointUploadDone or CheckpointUploadFailed.
struct UploadCheckpoint {
  CheckpointPartId part;
  std::string folder;
  std::vector<FileEntry> files;
};
// Also stops a fetch or upload of that folder. What was fetched in part may be kept for the next
// one.
struct DeleteCheckpointFolder {
  std::string folder;
};

// Fetches the code of a job that has a replica here. Answered by CodeFetched or CodeFetchFailed.
// The driver keeps the code named in `in_use`, and a bounded number of other bundles.
struct FetchCode {
  std::string code;
  ReplicaId replica;  // of the job that the code belongs to
  std::vector<std::string> in_use;
};

struct ExitProcess {  // last effect; the message is for stderr
  int code = 0;
  std::string message;
  bool leaves_trainers = false;  // they continue; otherwise what still runs is killed
};

// Checkpoint folders are <data_dir>/fetched/job_J/NAME, which the driver writes for the replicas of
// one job, and <data_dir>/written/rep_R/NAME, which the trainer of one replica writes. NAME is
// ckpt_N, or ckpt_N.S of a later stage S; weights alone are in ckpt_N.weights or ckpt_N.S.weights,
// the files of P stages from S on in ckpt_N.S+P.
// A confined program reaches the folder of its job and that of its replica, and no other one.
inline constexpr const char* kFetchedFolder = "fetched";
inline constexpr const char* kWrittenFolder = "written";

using Effect = std::variant<OpenLink, CloseLink, SendCoordinator, StartTrainer, IdentifyTrainer,
                            KillTrainer, SendTrainer, FetchCheckpoint, HashCheckpoint,
                            UploadCheckpoint, DeleteCheckpointFolder, FetchCode, ExitProcess>;
using Effects = std::vector<Effect>;

}  // namespace shoal::agent
