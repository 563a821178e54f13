// Which BLAS this process got, and its matrix product for the fused CPU attention. libtorch calls
// whatever library answers to sgemm_; Debian's falls back to the reference BLAS, ten times slower,
// without a word, so the trainer looks and says so. A libtorch with a BLAS of its own inside (MKL)
// exports none.
#pragma once

#include <cstdint>
#include <string>

namespace shoal::trainer {

// Fortran's sgemm: column-major, every argument by address.
using Sgemm = void (*)(const char* trans_a, const char* trans_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

struct Blas {
  std::string name;        // "OpenBLAS 0.3.21", "reference BLAS (/lib/…)", "inside libtorch"
  bool reference = false;  // the slow one
  Sgemm sgemm = nullptr;   // null when none is exported
};

const Blas& blas();                  // looked up once; thread-safe
void set_blas_threads(int threads);  // where the library has a switch for it

}  // namespace shoal::trainer
