// The entry that libFuzzer calls, for parsers.
#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/fuzz/parser_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  shoal::fuzz::try_parser(std::as_bytes(std::span(data, size)));
  return 0;
}
