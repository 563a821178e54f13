// How long a device takes for the parts of a job's model. Before a pipeline is cut for the first
// time, the coordinator asks the agents of free devices to measure (MeasureBlock), and each answers
// once (BlockMeasured). The idle trainer of the device computes the passes, with the modules that
// train; a device that trains is never measured. Neither message is sent again: what is lost costs
// the job a wait with a limit, and the plan then goes by the device's matrix product.
#pragma once

#include <cstdint>
#include <string>

#include "base/digest.h"
#include "base/fields.h"
#include "base/time.h"
#include "job/block_shape.h"

namespace shoal {

// Agents and trainers from this protocol on measure blocks.
inline constexpr std::int32_t kMeasuresBlocksSince = 6;

// Forward and backward pass of one microbatch, recomputation included.
struct BlockTimes {
  Duration block;      // of one block
  Duration embedding;  // what the first stage has more,
  Duration head;       //   and the last: norm, projection to the vocabulary, loss
  bool operator==(const BlockTimes&) const = default;
};
constexpr auto fields_of(Of<BlockTimes>) {
  using T = BlockTimes;
  return fields<&T::block, &T::embedding, &T::head>();
}

struct MeasureBlock {
  std::int32_t device = 0;
  BlockShape shape;
  // The job's. Nothing that computes depends on them; a trainer that imitates steps of a given
  // length knows a block by its share.
  std::int64_t layers = 1, batch = 1;
  bool operator==(const MeasureBlock&) const = default;
};
constexpr auto fields_of(Of<MeasureBlock>) {
  using T = MeasureBlock;
  return fields<&T::device, &T::shape, &T::layers, &T::batch>();
}

inline constexpr std::size_t kBlockErrorBytesMax = 256;

struct BlockMeasured {
  std::int32_t device = 0;
  Digest shape;      // of what was asked
  BlockTimes times;  // zeros: it was not measured, and `error` says why
  std::string error = {};
  bool operator==(const BlockMeasured&) const = default;
};
constexpr auto fields_of(Of<BlockMeasured>) {
  using T = BlockMeasured;
  return fields(field<&T::device>(), field<&T::shape>(), field<&T::times>(or_none()),
                field<&T::error>(at_most(kBlockErrorBytesMax)));
}

}  // namespace shoal
