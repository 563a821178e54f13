// Records that no rule of this program can have made: written by an earlier version that believed
// its members, or by a damaged disk. They are found once, when a process starts, so that rules may
// rely on what the tables say. A job with such a record fails (corrupt_record); the others go on.
#pragma once

#include <string>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

// Ids above this are none that a coordinator has given out, and leave room for those to come.
inline constexpr std::uint64_t kIdMax = std::uint64_t{1} << 62;

// Fails replicas of jobs and agents that are not there, which nothing could look up, and takes the
// counters back to the ids that exist where they are beyond kIdMax. An event names each.
void mend_records(Transaction& tx);

// What is wrong with the records of a live job, by field; empty: nothing.
std::string why_corrupt(const State& state, const JobRecord& job);

// Takes the replicas and rounds of a corrupt job out of memory, so that no rule looks at them
// again.
void set_aside(Transaction& tx, JobId job);

}  // namespace shoal::coordinator
