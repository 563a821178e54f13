// What a fuzzer does with its bytes: everything that a peer can send before its meaning is known.
// The first byte chooses: a header and payload of the outer step, a frame of the pipeline, a whole
// conversation with the session of a reduce, the payload alone of each codec, activations, or what
// is to be expanded, as frame_fuzz.cc says. Breaks a SHOAL_CHECK, which ends the process, when a
// decoder takes what it would not write or gives a value that is not finite, or a session breaks a
// promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "outer_opt/core/round/round.h"

namespace shoal::fuzz {

// The plan of a conversation: three members, of whom the first one is the session's. With
// param_server the third one only averages. Shapes 0 to 3: butterfly, ring, all-gather (sparse2,
// whatever `codec` says) and param_server; 4, 8 and 12: a butterfly with a trimmed mean, with a
// centered clip and with sharded momentum.
ReducePlan plan_of(std::uint8_t shape, std::uint8_t codec);
std::int64_t frame_values_of(const ReducePlan& plan);

// True when all of it was as a good peer would send it: a whole frame, a reduce that ended well.
bool try_bytes(std::span<const std::byte> bytes);

}  // namespace shoal::fuzz
