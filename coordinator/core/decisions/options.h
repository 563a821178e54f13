// Every time and bound of the coordinator's rules. Where something moves, a limit counts the time
// in which nothing did, never the whole; what its size takes unseen (to read, to hash, to digest)
// is added (base/transfer_patience.h). Validated once, at construction, including the rules between
// fields; the simulator draws them from its seed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/field_error.h"
#include "base/time.h"
#include "base/units.h"
#include "job/job_spec.h"

namespace shoal::coordinator {

// The most devices that the jobs of one owner may hold together.
struct DeviceQuotas {
  std::int64_t each = 0;  // of an owner that is not named; 0: no limit
  std::vector<std::pair<std::string, std::int64_t>> of;  // by owner, each once; 0: no limit
  std::int64_t of_owner(const std::string& owner) const {
    for (const auto& [name, devices] : of) {
      if (name == owner) return devices;
    }
    return owner.empty() ? 0 : each;  // jobs from before there were owners
  }
};

struct Options {
  std::string version;  // of the software, for people
  Duration heartbeat_every = seconds(2);
  Duration lease = seconds(8);            // silence after which an agent is lost
  Duration reconnect_grace = seconds(5);  // the same with a closed stream
  Duration boot_grace = seconds(60);      // the same for agents known from before a restart
  Duration return_grace =
      seconds(5);  // of a job that had lost all: the first is back, wait for more
  // Before a rollback, absent replicas that hold newer state are waited for: as long as the work
  // at stake took, at least the one and at most the other.
  Duration rollback_wait_min = seconds(60), rollback_wait_max = seconds(3600);
  Duration gather_window = seconds(2);  // late comers get this long once min_replicas are there
  // A pipeline that is planned for the first time waits so long for free devices that measure a
  // block of its model (replicas/profiling.h); 0: they are not asked.
  Duration measure_limit = seconds(10);
  // A job that lacks min_replicas for so long takes the devices of jobs of lower priority.
  Duration preempt_after = seconds(10);
  // Nothing was heard of a load; above what an agent gives its trainer to start and to load.
  Duration load_limit = seconds(300);
  Duration straggler_min = seconds(30);  // after half have reported: at least this, and
  double straggler_factor = 0.5;         //   this share of the round's age, until CloseRound
  double quorum_grace =
      0.05;  // async: enough reported, wait this share of the round's age for more
  Duration join_grace = seconds(5);  // a frozen round leaves joiners behind: wait this long for one
  // A joiner that is too slow for the rounds is not asked again for so long, twice as long each
  // time.
  Duration join_again_first = seconds(60), join_again_cap = seconds(3600);
  Duration close_limit = seconds(30);  // CloseRound until the silent ones count as unresponsive
  Duration step_limit = seconds(60);   // a compute thread says nothing: at least this,
  double step_factor = 10;             //   this many times its usual pause, and before that
  Duration first_step_limit = seconds(600);  //  is known, while it compiles and warms up, this
  Duration failure_grace = seconds(2);       // first ReduceFailed until the attempt is judged
  Duration reduce_limit_min = seconds(20);   // time limit of one attempt: this, plus
  double reduce_bytes_per_s = 1e6;  //   the bytes a member moves at this rate, or at a quarter of
                                    //   what the slowest line was measured at, if that is less
  Duration rebalance_every = seconds(60);  // replicas of a pipeline change their stage this often
  std::int32_t attempts_max = 5;           // per round, then it is aborted
  Duration evaluation_limit = seconds(1800);  // of a pipeline that is trained: the whole
  Duration apply_limit = seconds(60);  // commit until Applied, then the member is unresponsive
  Duration checkpoint_limit = seconds(180);  // nothing moved of one that is written or uploaded
  Duration transfer_limit = seconds(60);     // of files to or from an agent: nothing moved
  // A device that failed waits this long for the next replica: the one, doubled with each further
  // failure that counts against the device (replicas/device_failures.h), and at most the other.
  Duration replica_backoff = seconds(1), replica_backoff_max = seconds(600);
  Duration rest_awaited = seconds(10);   // a job that can do otherwise waits for no longer rest
  std::int32_t device_failures_max = 3;  // of that kind in a row: the device is cordoned
  Duration checkpoint_backoff = seconds(10);  // of a job that waits for one that failed
  std::int32_t failures_in_row_max = 20;      // of replicas without a commit: the job fails
  double outlier_factor = 10;                 // norm over the stage's median, above it: rejected
  std::int32_t outlier_members_min = 4;       // with fewer nobody can tell who is the odd one
  std::int32_t quarantine_violations = 3;     // see health_record.h
  Duration quarantine_window = seconds(3600);
  Duration quarantine_first = seconds(600), quarantine_cap = seconds(86'400);
  Duration quarantine_forgotten = seconds(7 * 86'400);
  Bytes copies_max = mebibytes(8 << 10);  // that an agent keeps for others (checkpoint.buddies)
  std::int64_t jobs_max = 10'000;         // live ones
  std::int64_t agents_max = 20'000;       // that are there; those that are gone do not count
  DeviceQuotas quotas = {};
  // Which stored checkpoints go before a person deletes them: retention.h.
  Bytes checkpoints_max;  // of all jobs together; 0: no limit
  Duration keep_ended;    // of ended jobs, beside the newest and the final one; 0: forever
};

// Empty when the options can work together.
std::vector<FieldError> validate(const Options& options);

}  // namespace shoal::coordinator
