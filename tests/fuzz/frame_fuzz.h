// What a fuzzer does with its bytes: everything that a peer can send before its meaning is known.
// The first byte chooses: a header and payload of the outer step, a frame of the pipeline, or a
// whole conversation with the session of a reduce, as frame_fuzz.cc says. Breaks a SHOAL_CHECK,
// which ends the process, when a decoder takes what it would not write, or a session breaks a
// promise.
#pragma once

#include <cstddef>
#include <span>

namespace shoal::fuzz {

// True when all of it was as a good peer would send it: a whole frame, a reduce that ended well.
bool try_bytes(std::span<const std::byte> bytes);

}  // namespace shoal::fuzz
