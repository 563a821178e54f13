// One block of the int8 codec (codec.h), twice: a scalar reference that says what the bits are, and
// AVX2 code that must give the same ones (codec_test.cc compares them). A block of n values, 1 <= n
// <= kInt8Block, is encoded in 4 + n bytes: the scale as fp32, then the values.
//
// The largest magnitude is found on the bit patterns, so that a NaN or an infinity ends up in the
// scale and is refused by whoever decodes. Scales below the smallest normal number count as 0:
// denormals are treated differently by processes that flush them.
#pragma once

#include <cstddef>

namespace shoal::outer_opt {

struct Int8Kernels {
  void (*encode)(const float* in, std::size_t n, std::byte* out);
  // Both return false on a negative scale and on one that would decode to infinity or NaN.
  bool (*decode)(const std::byte* in, std::size_t n, float* out);
  bool (*accumulate)(const std::byte* in, std::size_t n, float factor, float* sum);
};

struct Fp32Kernels {
  // Both return false when a value is not finite; `in` need not be aligned.
  bool (*copy)(const std::byte* in, std::size_t n, float* out);
  bool (*accumulate)(const std::byte* in, std::size_t n, float factor, float* sum);
};

extern const Int8Kernels kInt8Reference;
extern const Fp32Kernels kFp32Reference;

// The fastest ones that this processor has.
const Int8Kernels& int8_kernels();
const Fp32Kernels& fp32_kernels();

}  // namespace shoal::outer_opt
