// Payloads that lie in pieces (frame.h), as they come from the network, read once: a pass over a
// frame that is larger than the cache costs as much as its arithmetic, so code that works on a
// payload does everything with a short run of it, and hashes it on the way. Blocks that are cut
// between two pieces are put together first, the rest is read where it lies. Pure and thread-safe.
#pragma once

#include <functional>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/frame.h"

namespace shoal::outer_opt {

// Encoded values, whole blocks, that lie together.
struct ValueRun {
  std::span<const std::byte> bytes;
  std::size_t first = 0, count = 0;  // values
};
using ReadRun = std::function<Status(const ValueRun&)>;

inline constexpr std::size_t kRunValues = 4096;  // at most: 16 KiB of fp32 stay in the first cache
static_assert(kRunValues % kCodecRun == 0);

// Hands the payload of header.count values to `read`, run after run in order. kDataLoss when size
// or checksum differ from the header, else the first error of `read`. That the payload is damaged
// shows at its end only: what was made of it until then is to be thrown away.
Status read_payload(const Codec& codec, const FrameHeader& header, Pieces payload,
                    const ReadRun& read);

// The same for values that have no payload: the bytes of the runs are empty.
Status for_each_run(std::size_t count, const ReadRun& use);

Status decode_payload(const Codec& codec, const FrameHeader& header, Pieces payload,
                      std::span<float> out);

}  // namespace shoal::outer_opt
