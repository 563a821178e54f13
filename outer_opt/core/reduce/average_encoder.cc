#include "outer_opt/core/reduce/average_encoder.h"

namespace shoal::outer_opt {

AverageEncoder::AverageEncoder(const Codec& codec, float inverse, std::span<std::byte> encoded)
    : codec_(codec), inverse_(inverse), encoded_(encoded) {}

void AverageEncoder::add(std::span<float> run) {
  for (float& value : run) value = value * inverse_;
  std::span<const std::byte> bytes = std::as_bytes(std::span<const float>(run));
  if (has_payload()) {
    const std::span<std::byte> out = encoded_.first(codec_.encoded_size(run.size()));
    encoded_ = encoded_.subspan(out.size());
    codec_.encode(run, out);
    bytes = out;
  }
  finite_ &= codec_.decode(bytes, run).ok();
  payload_.add(bytes);
  if (has_payload()) values_.add(std::as_bytes(std::span<const float>(run)));
}

std::uint64_t AverageEncoder::values_checksum() const {
  return has_payload() ? values_.value() : payload_.value();
}

}  // namespace shoal::outer_opt
