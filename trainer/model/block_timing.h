// Times a block, the embedding and the head of a model on this device (messages/block_times.h):
// forward and backward passes of the modules that train, over random values, in the precision of
// the job. Small matrices, norms and the loss reach another share of a device's speed than the
// matrix product of measure_device(), which is why plans prefer these times.
#pragma once

#include "messages/block_times.h"
#include "trainer/model/torch_bridge.h"

namespace shoal::trainer {

// Takes about a second, or a pass or two of one sequence on a device that is slower than that.
// A microbatch that would take too long is timed on some of its sequences. DeviceChoice::speed
// counts, as it does for training. Fails with kModelDoesNotFit (bf16 on a CPU), kOutOfMemory,
// kDeviceLost or kInternal.
MaybeFailure time_block(const BlockShape& shape, const DeviceChoice& choice, BlockTimes& out);

}  // namespace shoal::trainer
