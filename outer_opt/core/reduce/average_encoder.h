// The end of a sum at the owner of a part: divides it, encodes it once and decodes those bytes
// again, so that the owner has what the others will have, and takes both checksums. It works run by
// run, because the summing thread has each run in the cache when its last term was added.
#pragma once

#include <span>

#include "outer_opt/core/codec/checksum.h"
#include "outer_opt/core/codec/codec.h"

namespace shoal::outer_opt {

class AverageEncoder {
 public:
  // `encoded` is where the payload goes; empty with fp32, whose values are the payload.
  AverageEncoder(const Codec& codec, float inverse, std::span<std::byte> encoded);

  // The next run of the sum becomes the average: a multiple of kCodecRun values, except the last.
  void add(std::span<float> run);

  bool finite() const { return finite_; }  // the codec could hold all of it
  // Checksums over all runs so far: of their payload, and of the values that all members end with.
  std::uint64_t payload_checksum() const { return payload_.value(); }
  std::uint64_t values_checksum() const;

 private:
  bool has_payload() const { return codec_.kind() != CodecKind::kFp32; }

  const Codec& codec_;
  const float inverse_;
  std::span<std::byte> encoded_;  // what is left of it
  RunningChecksum payload_, values_;
  bool finite_ = true;
};

}  // namespace shoal::outer_opt
