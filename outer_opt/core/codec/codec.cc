// The codecs as loops over blocks; the arithmetic is in the *_kernels.cc.
#include "outer_opt/core/codec/codec.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "outer_opt/core/codec/codec_kernels.h"

namespace shoal::outer_opt {
namespace {

Status wrong_size(std::size_t expected, std::size_t given) {
  return Error{Code::kDataLoss, "an encoded run of " + std::to_string(expected) +
                                    " bytes was expected, got " + std::to_string(given)};
}

Status not_finite() {
  return Error{Code::kDataLoss, "an encoded run holds a value that is not finite"};
}

// A run is cut into blocks of `block` values; each has its scale in front and `bits` per value.
struct Layout {
  std::size_t block, scale_bytes, bits;
  double error_bound;
};

class BlockCodec final : public Codec {
 public:
  BlockCodec(CodecKind kind, const Layout& layout, const CodecKernels& kernels)
      : kind_(kind), layout_(layout), kernels_(kernels) {}

  CodecKind kind() const override { return kind_; }

  std::size_t encoded_size(std::size_t values) const override {
    const std::size_t rest = values % layout_.block;
    return values / layout_.block * block_size(layout_.block) + (rest > 0 ? block_size(rest) : 0);
  }

  double error_bound() const override { return layout_.error_bound; }

  void encode(std::span<const float> in, std::span<std::byte> out) const override {
    SHOAL_CHECK(out.size() == encoded_size(in.size()));
    for_each_block(in.size(), [&](std::size_t i, std::size_t n, std::size_t at) {
      kernels_.encode(&in[i], n, &out[at]);
    });
  }

  Status decode(std::span<const std::byte> in, std::span<float> out) const override {
    if (in.size() != encoded_size(out.size()))
      return wrong_size(encoded_size(out.size()), in.size());
    bool good = true;
    for_each_block(out.size(), [&](std::size_t i, std::size_t n, std::size_t at) {
      good &= kernels_.decode(&in[at], n, &out[i]);
    });
    return good ? Status() : not_finite();
  }

  Status accumulate(std::span<const std::byte> in, float factor, std::span<float> sum,
                    SquareSum& squares) const override {
    if (in.size() != encoded_size(sum.size()))
      return wrong_size(encoded_size(sum.size()), in.size());
    bool good = true;
    for_each_block(sum.size(), [&](std::size_t i, std::size_t n, std::size_t at) {
      good &= kernels_.accumulate(&in[at], n, factor, &sum[i], squares.lanes);
    });
    return good ? Status() : not_finite();
  }

 private:
  std::size_t block_size(std::size_t n) const {
    return layout_.scale_bytes + (n * layout_.bits + 7) / 8;
  }

  // Calls use(first value, count, first byte) for every block in order.
  template <typename Use>
  void for_each_block(std::size_t values, Use use) const {
    const std::size_t stride = block_size(layout_.block);
    for (std::size_t i = 0, at = 0; i < values; i += layout_.block, at += stride) {
      use(i, std::min(layout_.block, values - i), at);
    }
  }

  const CodecKind kind_;
  const Layout layout_;
  const CodecKernels kernels_;
};

constexpr std::size_t kNoBlocks = std::size_t{1} << 32;  // longer than any run
static_assert(kCodecRun % kInt8Block == 0 && kCodecRun % kNibbleBlock == 0);
constexpr double kScaleExcess = 1 + 0x1p-7;  // of a scale that was rounded up to bf16

}  // namespace

const Codec& codec(CodecKind kind) {
  static const KernelSet& kernels = fastest_kernels();
  static const BlockCodec fp32(CodecKind::kFp32, {kNoBlocks, 0, 32, 0}, kernels.fp32);
  static const BlockCodec fp16(CodecKind::kFp16, {kNoBlocks, 0, 16, 0x1p-11}, kernels.fp16);
  static const BlockCodec bf16(CodecKind::kBf16, {kNoBlocks, 0, 16, 0x1p-8}, kernels.bf16);
  static const BlockCodec int8(CodecKind::kInt8, {kInt8Block, 4, 8, 0.5 / 127}, kernels.int8);
  static const BlockCodec int4(CodecKind::kInt4, {kNibbleBlock, 2, 4, kScaleExcess * 0.5 / 7},
                               kernels.int4);
  static const BlockCodec e3m0(CodecKind::kE3m0, {kNibbleBlock, 2, 4, kScaleExcess * 0.25},
                               kernels.e3m0);
  switch (kind) {
    case CodecKind::kFp32:
      return fp32;
    case CodecKind::kFp16:
      return fp16;
    case CodecKind::kBf16:
      return bf16;
    case CodecKind::kInt8:
      return int8;
    case CodecKind::kInt4:
      return int4;
    case CodecKind::kE3m0:
      return e3m0;
    case CodecKind::kSparse2:
      break;
  }
  SHOAL_CHECK(false, "no such dense codec");
  return fp32;
}

}  // namespace shoal::outer_opt
