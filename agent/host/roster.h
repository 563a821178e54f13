// The trainers of a data folder as a file, so that the next start of the daemon finds those that
// are still there: which process each one is, what it was started as, and the nonce that it names
// when it attaches. Rewritten whenever one was started; processes that have ended meanwhile are
// told by their start time. Lines of text:
//
//   shoal-trainers 3
//   boot 6a0f…                                     of the host: numbers of processes mean it only
//   settings 9c41…                                 with which the daemon starts its trainers
//   trainer SLOT GENERATION DEVICE PID STARTED PORT NONCE REPLICA JOB STAGE KIND CODE ENTRY GPUS
//
// REPLICA, JOB and STAGE are those that the process was given last, or 0; KIND is the kind of the
// trainer; CODE and ENTRY are those of a program, GPUS the UUIDs of the GPUs that the process sees:
// "=" and the percent-encoded text. The lines of a list of version 1 end with the nonce: they do
// not tell which replica a process is. Those of version 2 end with ENTRY, and its settings count
// all GPUs of the host.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/io.h"
#include "agent/host/process_id.h"
#include "base/result.h"

namespace shoal::agent {

struct RosterEntry {
  TrainerId trainer;
  std::int32_t device = 0;
  ProcessId process;
  int port = 0;                                  // that it serves its peers on
  std::string nonce;                             // 32 hex characters
  std::optional<TrainerIdentity> identity = {};  // none: the list is of version 1
  std::optional<std::string> gpus = {};          // none: of version 1 or 2; empty: it sees none
  bool operator==(const RosterEntry&) const = default;
};

struct Roster {
  std::string boot, settings;
  std::vector<RosterEntry> trainers;
  bool operator==(const Roster&) const = default;
};

std::string to_text(const Roster& roster);
Result<Roster> parse_roster(std::string_view text);  // kDataLoss names the line

// An empty one when there is no file.
Result<Roster> read_roster(const std::string& path);
Status write_roster(const std::string& path, const Roster& roster);

// 32 hex characters that nobody can guess.
std::string random_hex();

}  // namespace shoal::agent
