// The text of a campaign as jobs over a dataset read it (job/chunk_order.h): chunks shuffled, then
// the windows of a group of some chunks. Beside the order of data.train, which shuffles all windows
// at once, it tells what the two levels cost. Held-out sequences are those of data.train: all arms
// are evaluated on the same text.
#pragma once

#include <cstdint>
#include <memory>

#include "job/job_spec.h"
#include "trainer/plain/data.h"

namespace shoal::bench {

struct StoredOrder {
  std::shared_ptr<const trainer::Dataset> data;
  std::int64_t group = 0;  // sequences of one, which one worker trains
};

// `spec` names the file, whose training part becomes a dataset, except for one chunk, which a
// dataset holds out. Throws std::runtime_error.
StoredOrder open_in_stored_order(const JobSpec& spec);

// Worker `worker` of `workers` trains whole groups: the number of its own n-th sequence.
std::int64_t sequence_of(const StoredOrder& order, std::int64_t worker, std::int64_t workers,
                         std::int64_t n);

}  // namespace shoal::bench
