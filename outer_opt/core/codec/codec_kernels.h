// The inner loops of the codecs (codec.h), twice each: a scalar reference over the formats of
// formats.h, which say what the bits are, and AVX2 code that must give the same ones
// (codec_kernels_test.cc compares them). codec_traits.h declares a pair per codec: kXReference and
// kXAvx2. The latter is the reference where the architecture has no AVX2, and must not be called on
// an x86 processor without AVX2 and F16C.
//
// Kernels of a format without blocks (fp32, fp16, bf16) take any n; the others take one block, 1 <=
// n <= its size. Blocks carry their scale in front of the values.
#pragma once

#include <cstddef>

#include "job/job_spec_enums.h"

namespace shoal::outer_opt {

struct CodecKernels {
  void (*encode)(const float* in, std::size_t n, std::byte* out);
  // Both return false on an encoding that holds, or would decode to, a value that is not finite,
  // and on a negative scale; what was written is then unspecified. `in` need not be aligned.
  // `squares` are the eight lanes of a SquareSum (codec.h).
  bool (*decode)(const std::byte* in, std::size_t n, float* out);
  bool (*accumulate)(const std::byte* in, std::size_t n, float factor, float* sum, double* squares);
};

// `kind` is one of kDenseCodecs.
const CodecKernels& reference_kernels(CodecKind kind);
const CodecKernels& fastest_kernels(CodecKind kind);  // of those that this processor has

}  // namespace shoal::outer_opt
