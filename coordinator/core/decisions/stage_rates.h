// What the replicas of a pipeline were seen to do, against what their devices promised. A device
// promises a speed by a block of the model that it measured (`gflops`, block_speeds.h), or only by
// a matrix product, which every kind of stage reaches to another share: small matrices, an
// embedding, a loss over the vocabulary. Once replicas report the time of a
// microbatch, two factors are separated: the efficiency of a stage, which all of its replicas
// share, and the speed of a device, which it takes along when it moves. What most replicas did at
// their best tells the efficiency: one that is slowed down later is slow, and its stage no less
// efficient, even where nobody else serves it; so is one that was slow from the start, next to one
// that was not. Pure; placement.h uses the result.
#pragma once

#include <vector>

#include "coordinator/core/decisions/placement.h"

namespace shoal::coordinator {

struct StageRates {
  // Per stage: FLOP/s of its replicas by FLOP/s that their devices promise, the median. That of all
  // replicas where nobody has reported; 1 when nobody has at all.
  std::vector<double> efficiency;
  // Per replica of the input's `live`, in its order: the speed of its device in the unit of
  // `gflops`, so that efficiency times this is what was seen; what the device promises where
  // nothing was.
  std::vector<double> gflops;
};

// `microbatch_flops` per stage: forward and backward of one microbatch. A replica whose device
// holds others, too, tells nothing of its stage, because they are in each other's way; of its
// device it tells that it is slow once it takes longer than they explain.
StageRates stage_rates(const std::vector<PlacedReplica>& live,
                       const std::vector<double>& microbatch_flops);

}  // namespace shoal::coordinator
