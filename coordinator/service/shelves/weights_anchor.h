// Recomputes the digest of a stage's anchor from its safetensors file of weights, piece by piece.
// Every trainer writes the anchor, a vector of float32, as tensors in the order of the vector. So
// the digest of the file's values is the digest of the anchor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/byte_digester.h"
#include "base/result.h"

namespace shoal::coordinator {

class WeightsAnchor {
 public:
  void add(std::span<const std::byte> bytes);  // of the file, one piece after another
  // kDataLoss: it is no such file, or is not whole.
  Result<Digest> finish() const;

 private:
  static constexpr std::size_t kHeaderBytesMax = 100'000'000;  // as in the reference implementation

  bool header_is_complete() const;

  std::string header_;  // with its length
  ByteDigester values_;
  std::int64_t value_bytes_ = 0;
};

}  // namespace shoal::coordinator
