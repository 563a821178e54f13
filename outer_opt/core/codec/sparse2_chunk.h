// One chunk of sparse2 (sparse2.h): where its parts lie, and which two magnitudes stand for its
// values. Shared by the CPU code and CUDA (formats.h tells why both give the same bits).
#pragma once

#include <cstddef>
#include <cstdint>

#include "outer_opt/core/codec/formats.h"

namespace shoal::outer_opt::sparse2 {

inline constexpr unsigned kChunk = 4096, kKept = 64;  // of so many values the largest are kept
inline constexpr unsigned kCodebookBytes = 4, kUnaryBytes = 16, kLowBits = 6;

struct Layout {
  SHOAL_HD explicit constexpr Layout(std::size_t n)
      : kept(n < kKept ? n : kKept),
        unary(kCodebookBytes + (kLowBits * kept + 7) / 8),
        codes(unary + kUnaryBytes),
        size(codes + (2 * kept + 7) / 8) {}
  std::size_t kept, unary, codes, size;  // the latter three in bytes
};

struct Entry {
  std::uint32_t index;
  float value;
};

SHOAL_HD inline double magnitude_of(const Entry& entry) {
  return static_cast<double>(float_of(bits_of(entry.value) & kMagnitude));
}

struct Codebook {
  double small = 0, large = 0, threshold = 0;  // above the threshold: large
};

// Lloyd's iteration from the mean; sums in the order of the entries.
SHOAL_HD inline Codebook codebook_of(const Entry* entries, std::size_t count) {
  constexpr int kIterations = 8;
  const auto total = static_cast<double>(count);
  Codebook book;
  for (std::size_t i = 0; i < count; ++i) book.threshold += magnitude_of(entries[i]);
  book.threshold /= total;
  for (int iteration = 0;; ++iteration) {
    double small = 0, large = 0, larger = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double m = magnitude_of(entries[i]);
      const bool above = m > book.threshold;
      (above ? large : small) += m;
      larger += above ? 1 : 0;
    }
    const double smaller = total - larger;
    book.small = smaller > 0 ? small / smaller : 0;
    book.large = larger > 0 ? large / larger : book.small;
    if (iteration == kIterations) return book;
    book.threshold = (book.small + book.large) / 2;
  }
}

// A magnitude as it is stored. Denormals are treated differently by processes that flush them.
SHOAL_HD inline std::uint16_t stored_magnitude(double magnitude) {
  const auto value = static_cast<float>(magnitude);
  return formats::Bf16::pack(value < FLT_MIN ? 0.0f : value);
}

// Two bits: 1 the larger magnitude, 2 negative.
SHOAL_HD inline unsigned code_of(const Entry& entry, const Codebook& book) {
  const bool large = magnitude_of(entry) > book.threshold;
  return (large ? 1u : 0u) | ((bits_of(entry.value) & kSign) != 0 ? 2u : 0u);
}

}  // namespace shoal::outer_opt::sparse2
