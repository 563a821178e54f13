// The codecs as loops over blocks; the arithmetic is in int8_block.cc.
#include "outer_opt/core/codec.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "outer_opt/core/int8_block.h"

namespace shoal::outer_opt {
namespace {

Status wrong_size(std::size_t expected, std::size_t given) {
  return Error{Code::kDataLoss, "an encoded run of " + std::to_string(expected) +
                                    " bytes was expected, got " + std::to_string(given)};
}

Status not_finite() {
  return Error{Code::kDataLoss, "an encoded run holds a value that is not finite"};
}

class Fp32Codec final : public Codec {
 public:
  CodecKind kind() const override { return CodecKind::kFp32; }
  std::size_t encoded_size(std::size_t values) const override { return values * sizeof(float); }

  void encode(std::span<const float> in, std::span<std::byte> out) const override {
    SHOAL_CHECK(out.size() == encoded_size(in.size()));
    if (!in.empty()) std::memcpy(out.data(), in.data(), out.size());
  }

  Status decode(std::span<const std::byte> in, std::span<float> out) const override {
    if (in.size() != encoded_size(out.size()))
      return wrong_size(encoded_size(out.size()), in.size());
    return fp32_kernels().copy(in.data(), out.size(), out.data()) ? Status() : not_finite();
  }

  Status accumulate(std::span<const std::byte> in, float factor,
                    std::span<float> sum) const override {
    if (in.size() != encoded_size(sum.size()))
      return wrong_size(encoded_size(sum.size()), in.size());
    const bool good = fp32_kernels().accumulate(in.data(), sum.size(), factor, sum.data());
    return good ? Status() : not_finite();
  }
};

class Int8Codec final : public Codec {
 public:
  CodecKind kind() const override { return CodecKind::kInt8; }
  std::size_t encoded_size(std::size_t values) const override {
    return values + sizeof(float) * ((values + kBlock - 1) / kBlock);
  }

  void encode(std::span<const float> in, std::span<std::byte> out) const override {
    SHOAL_CHECK(out.size() == encoded_size(in.size()));
    const Int8Kernels& kernels = int8_kernels();
    for (std::size_t i = 0, at = 0; i < in.size(); i += kBlock, at += kBlock + sizeof(float)) {
      kernels.encode(&in[i], std::min(kBlock, in.size() - i), &out[at]);
    }
  }

  Status decode(std::span<const std::byte> in, std::span<float> out) const override {
    if (in.size() != encoded_size(out.size()))
      return wrong_size(encoded_size(out.size()), in.size());
    const Int8Kernels& kernels = int8_kernels();
    bool good = true;
    for (std::size_t i = 0, at = 0; i < out.size(); i += kBlock, at += kBlock + sizeof(float)) {
      good &= kernels.decode(&in[at], std::min(kBlock, out.size() - i), &out[i]);
    }
    return good ? Status() : not_finite();
  }

  Status accumulate(std::span<const std::byte> in, float factor,
                    std::span<float> sum) const override {
    if (in.size() != encoded_size(sum.size()))
      return wrong_size(encoded_size(sum.size()), in.size());
    const Int8Kernels& kernels = int8_kernels();
    bool good = true;
    for (std::size_t i = 0, at = 0; i < sum.size(); i += kBlock, at += kBlock + sizeof(float)) {
      good &= kernels.accumulate(&in[at], std::min(kBlock, sum.size() - i), factor, &sum[i]);
    }
    return good ? Status() : not_finite();
  }

 private:
  static constexpr std::size_t kBlock = kInt8Block;
};

}  // namespace

const Codec& codec(CodecKind kind) {
  static const Fp32Codec fp32;
  static const Int8Codec int8;
  switch (kind) {
    case CodecKind::kFp32:
      return fp32;
    case CodecKind::kInt8:
      return int8;
  }
  SHOAL_CHECK(false, "unknown codec");
  return fp32;
}

}  // namespace shoal::outer_opt
