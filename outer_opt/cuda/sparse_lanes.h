// What the threads of a thread block do with one chunk of sparse2 (outer_opt/core/sparse2.h): a
// radix select for the magnitude of the 64th largest value, eight bits at a time, then the entries
// in the order of their indices. lanes.h tells what a group is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outer_opt/core/formats.h"
#include "outer_opt/core/sparse2_chunk.h"

namespace shoal::outer_opt::cuda {

inline constexpr unsigned kDigits = 256, kWords = sparse2::kChunk / 32;

// Memory that the group shares.
struct SparseScratch {
  float values[sparse2::kChunk];
  std::uint32_t histogram[kDigits];
  std::uint32_t chosen[kWords], equal[kWords];  // a bit per value
  std::uint32_t before[kWords];                 // values chosen in earlier words
  std::uint32_t threshold, mask, wanted;        // the 64th largest magnitude as far as it is known,
                                                // and how many of that magnitude are wanted
  sparse2::Entry entries[sparse2::kKept];
  sparse2::Codebook book;
};

SHOAL_HD inline unsigned count_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return static_cast<unsigned>(__popc(bits));
#else
  return static_cast<unsigned>(__builtin_popcount(bits));
#endif
}

// Finds the digit that the threshold has at `shift` and fixes it.
SHOAL_HD inline void fix_digit(SparseScratch& s, unsigned shift) {
  unsigned digit = kDigits - 1;
  while (s.histogram[digit] < s.wanted) s.wanted -= s.histogram[digit--];
  s.threshold |= digit << shift;
  s.mask |= (kDigits - 1) << shift;
}

// The magnitude of the `kept`-th largest value, a digit of eight bits at a time.
template <typename Group>
SHOAL_HD void find_threshold(Group& group, unsigned n, unsigned kept, SparseScratch& s) {
  if (group.rank() == 0) s.threshold = 0, s.mask = 0, s.wanted = kept;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (unsigned i = group.rank(); i < kDigits; i += group.size()) s.histogram[i] = 0;
    group.sync();
    for (unsigned i = group.rank(); i < n; i += group.size()) {
      const std::uint32_t magnitude = bits_of(s.values[i]) & kMagnitude;
      if ((magnitude & s.mask) != s.threshold) continue;
      group.add(&s.histogram[magnitude >> shift & (kDigits - 1)], 1);
    }
    group.sync();
    if (group.rank() == 0) fix_digit(s, static_cast<unsigned>(shift));
    group.sync();
  }
}

// Of equal magnitudes the earlier ones are kept; then counts what lies before each word.
SHOAL_HD inline void settle_equal(SparseScratch& s) {
  unsigned before = 0;
  for (unsigned w = 0; w < kWords; ++w) {
    std::uint32_t equal = s.equal[w];
    while (equal != 0 && s.wanted > 0) {
      const std::uint32_t lowest = equal & (~equal + 1u);
      s.chosen[w] |= lowest;
      equal ^= lowest;
      --s.wanted;
    }
    s.before[w] = before;
    before += count_bits(s.chosen[w]);
  }
}

// The entries with the largest magnitudes, by index.
template <typename Group>
SHOAL_HD void select_entries(Group& group, unsigned n, unsigned kept, SparseScratch& s) {
  find_threshold(group, n, kept, s);
  for (unsigned w = group.rank(); w < kWords; w += group.size()) s.chosen[w] = 0, s.equal[w] = 0;
  group.sync();
  for (unsigned i = group.rank(); i < n; i += group.size()) {
    const std::uint32_t magnitude = bits_of(s.values[i]) & kMagnitude;
    if (magnitude > s.threshold) group.set_bits(&s.chosen[i / 32], 1u << i % 32);
    if (magnitude == s.threshold) group.set_bits(&s.equal[i / 32], 1u << i % 32);
  }
  group.sync();
  if (group.rank() == 0) settle_equal(s);
  group.sync();
  for (unsigned i = group.rank(); i < n; i += group.size()) {
    const std::uint32_t word = s.chosen[i / 32], bit = 1u << i % 32;
    if ((word & bit) == 0) continue;
    s.entries[s.before[i / 32] + count_bits(word & (bit - 1))] = {i, s.values[i]};
  }
  group.sync();
}

// One byte of the encoding; the layout is that of sparse2.h.
SHOAL_HD inline std::byte sparse_byte(const SparseScratch& s, const sparse2::Layout& layout,
                                      unsigned at) {
  unsigned byte = 0;
  if (at < sparse2::kCodebookBytes) {
    const double magnitude = at < 2 ? s.book.small : s.book.large;
    byte = sparse2::stored_magnitude(magnitude) >> 8 * (at % 2);
  } else if (at < layout.unary) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const unsigned from = 8 * (at - sparse2::kCodebookBytes) + bit;
      const unsigned entry = from / sparse2::kLowBits;
      if (entry >= layout.kept) break;
      byte |= (s.entries[entry].index >> from % sparse2::kLowBits & 1u) << bit;
    }
  } else if (at < layout.codes) {
    const unsigned first = 8 * (at - static_cast<unsigned>(layout.unary));
    for (unsigned i = 0; i < layout.kept; ++i) {
      const unsigned bit = (s.entries[i].index >> sparse2::kLowBits) + i - first;
      if (bit < 8) byte |= 1u << bit;
    }
  } else {
    for (unsigned j = 0; j < 4; ++j) {
      const unsigned entry = 4 * (at - static_cast<unsigned>(layout.codes)) + j;
      if (entry < layout.kept) byte |= sparse2::code_of(s.entries[entry], s.book) << 2 * j;
    }
  }
  return static_cast<std::byte>(byte & 0xffu);
}

template <typename Group>
SHOAL_HD void encode_sparse_chunk(Group& group, const float* in, unsigned n, SparseScratch& s,
                                  std::byte* out) {
  for (unsigned i = group.rank(); i < n; i += group.size()) s.values[i] = in[i];
  group.sync();
  const sparse2::Layout layout(n);
  const auto kept = static_cast<unsigned>(layout.kept);
  select_entries(group, n, kept, s);
  if (group.rank() == 0) s.book = sparse2::codebook_of(s.entries, kept);
  group.sync();
  for (unsigned at = group.rank(); at < layout.size; at += group.size()) {
    out[at] = sparse_byte(s, layout, at);
  }
  group.sync();
}

}  // namespace shoal::outer_opt::cuda
