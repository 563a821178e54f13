// Memory that keeps its place while nobody needs its values: the system may take its pages when it
// is short of them, and until then they cost no page faults when they are used again. For vectors
// as long as a model, which are in use for a small part of the time.
#pragma once

#include <cstddef>
#include <span>

namespace shoal {

// From now on each value is what it was or 0, until it is written. Costs a system call, and about a
// millisecond per 100 MB. Any thread that may write the values.
void forget_values(std::span<float> values);
void forget_bytes(std::span<std::byte> bytes);

// The bytes of this process that the system may take; 0: it does not say.
std::size_t idle_bytes();

}  // namespace shoal
