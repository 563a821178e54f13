// The inner loops of the codecs (codec.h), twice each: a scalar reference over the formats of
// formats.h, which say what the bits are, and AVX2 code that must give the same ones
// (codec_kernels_test.cc compares them).
//
// Kernels of a format without blocks (fp32, fp16, bf16) take any n; the others take one block, 1 <=
// n <= its size. Blocks carry their scale in front of the values.
#pragma once

#include <cstddef>

namespace shoal::outer_opt {

struct CodecKernels {
  void (*encode)(const float* in, std::size_t n, std::byte* out);
  // Both return false on an encoding that holds, or would decode to, a value that is not finite,
  // and on a negative scale; what was written is then unspecified. `in` need not be aligned.
  // `squares` are the eight lanes of a SquareSum (codec.h).
  bool (*decode)(const std::byte* in, std::size_t n, float* out);
  bool (*accumulate)(const std::byte* in, std::size_t n, float factor, float* sum, double* squares);
};

struct KernelSet {
  CodecKernels fp32, fp16, bf16, int8, int4, e3m0;
};

const KernelSet& reference_kernels();
const KernelSet& fastest_kernels();  // of those that this processor has

// One pair per format; the AVX2 ones are the reference where the architecture has no AVX2, and must
// not be called on an x86 processor without AVX2 and F16C.
extern const CodecKernels kFp32Reference, kFp32Avx2;
extern const CodecKernels kFp16Reference, kFp16Avx2;
extern const CodecKernels kBf16Reference, kBf16Avx2;
extern const CodecKernels kInt8Reference, kInt8Avx2;
extern const CodecKernels kInt4Reference, kInt4Avx2;
extern const CodecKernels kE3m0Reference, kE3m0Avx2;

}  // namespace shoal::outer_opt
