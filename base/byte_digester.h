// Incremental digest_of() (XXH3, 128 bits): computes the digest of a vector while its file is read.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/digest.h"

namespace shoal {

class ByteDigester {
 public:
  ByteDigester();
  ~ByteDigester();
  ByteDigester(const ByteDigester&) = delete;
  ByteDigester& operator=(const ByteDigester&) = delete;

  void add(std::span<const std::byte> bytes);
  Digest finish() const;  // equal to digest_of() of all bytes in one piece

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shoal
