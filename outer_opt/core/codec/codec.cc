// The codecs as loops over blocks; the arithmetic is in the *_kernels.cc.
#include "outer_opt/core/codec/codec.h"

#include <algorithm>
#include <string>
#include <vector>

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

constexpr std::size_t kNoBlocks = std::size_t{1} << 32;  // longer than any run

// A run is cut into blocks; each has its scale in front. A format without blocks has one that is
// longer than any run.
class BlockCodec final : public Codec {
 public:
  explicit BlockCodec(const CodecTraits& traits)
      : traits_(traits),
        block_(traits.block > 0 ? traits.block : kNoBlocks),
        kernels_(fastest_kernels(traits.kind)) {}

  CodecKind kind() const override { return traits_.kind; }

  std::size_t encoded_size(std::size_t values) const override {
    const std::size_t rest = values % block_;
    return values / block_ * block_size(block_) + (rest > 0 ? block_size(rest) : 0);
  }

  double error_bound() const override { return traits_.error_bound; }

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
    return traits_.scale_bytes + (n * traits_.bits + 7) / 8;
  }

  // Calls use(first value, count, first byte) for every block in order.
  template <typename Use>
  void for_each_block(std::size_t values, Use use) const {
    const std::size_t stride = block_size(block_);
    for (std::size_t i = 0, at = 0; i < values; i += block_, at += stride) {
      use(i, std::min(block_, values - i), at);
    }
  }

  const CodecTraits traits_;
  const std::size_t block_;
  const CodecKernels kernels_;
};

}  // namespace

const Codec& codec(CodecKind kind) {
  static const std::vector<BlockCodec> all = [] {
    std::vector<BlockCodec> codecs;
    for (const CodecKind dense : kDenseCodecs) codecs.emplace_back(traits_of(dense));
    return codecs;
  }();
  for (const BlockCodec& one : all) {
    if (one.kind() == kind) return one;
  }
  SHOAL_CHECK(false, "no such dense codec");
  return all[0];
}

}  // namespace shoal::outer_opt
