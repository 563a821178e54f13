// The entry that libFuzzer calls.
#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/fuzz/frame_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  shoal::fuzz::try_bytes(std::as_bytes(std::span(data, size)));
  return 0;
}
