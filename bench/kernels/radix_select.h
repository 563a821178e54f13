// Another way to find the 64 largest values of a chunk (outer_opt/cuda/sparse_lanes.h): a radix
// select over counters in shared memory, eight bits at a time. Measured beside the bisection; used
// by nothing else. Beside what sparse_lanes.h asks of a group:
//   void set_bits(std::uint32_t* shared, std::uint32_t bits);  atomically
#pragma once

#include "outer_opt/cuda/sparse_lanes.h"

namespace shoal::outer_opt::cuda {

inline constexpr unsigned kDigits = 256, kWords = sparse2::kChunk / 32;

struct RadixScratch {
  float values[sparse2::kChunk];
  std::uint32_t histogram[kDigits];
  std::uint32_t chosen[kWords], equal[kWords];  // a bit per value
  std::uint32_t before[kWords];                 // values chosen in earlier words
  std::uint32_t threshold, mask, wanted;        // the 64th largest magnitude as far as it is known,
                                                // and how many of that magnitude are wanted
  SparseScratch common;
};

SHOAL_HD inline unsigned count_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return static_cast<unsigned>(__popc(bits));
#else
  return static_cast<unsigned>(__builtin_popcount(bits));
#endif
}

// Finds the digit that the threshold has at `shift` and fixes it.
SHOAL_HD inline void fix_digit(RadixScratch& s, unsigned shift) {
  unsigned digit = kDigits - 1;
  while (s.histogram[digit] < s.wanted) s.wanted -= s.histogram[digit--];
  s.threshold |= digit << shift;
  s.mask |= (kDigits - 1) << shift;
}

// The magnitude of the `kept`-th largest value, a digit of eight bits at a time.
template <typename Group>
SHOAL_HD void find_threshold(Group& group, unsigned n, unsigned kept, RadixScratch& s) {
  if (group.rank() == 0) s.threshold = 0, s.mask = 0, s.wanted = kept;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (unsigned i = group.rank(); i < kDigits; i += Group::kThreads) s.histogram[i] = 0;
    group.sync();
    for (unsigned i = group.rank(); i < n; i += Group::kThreads) {
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
SHOAL_HD inline void settle_equal(RadixScratch& s) {
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
SHOAL_HD void select_entries(Group& group, unsigned n, unsigned kept, RadixScratch& s) {
  find_threshold(group, n, kept, s);
  for (unsigned w = group.rank(); w < kWords; w += Group::kThreads) s.chosen[w] = 0, s.equal[w] = 0;
  group.sync();
  for (unsigned i = group.rank(); i < n; i += Group::kThreads) {
    const std::uint32_t magnitude = bits_of(s.values[i]) & kMagnitude;
    if (magnitude > s.threshold) group.set_bits(&s.chosen[i / 32], 1u << i % 32);
    if (magnitude == s.threshold) group.set_bits(&s.equal[i / 32], 1u << i % 32);
  }
  group.sync();
  if (group.rank() == 0) settle_equal(s);
  group.sync();
  for (unsigned i = group.rank(); i < n; i += Group::kThreads) {
    const std::uint32_t word = s.chosen[i / 32], bit = 1u << i % 32;
    if ((word & bit) == 0) continue;
    s.common.entries[s.before[i / 32] + count_bits(word & (bit - 1))] = {i, s.values[i]};
  }
  group.sync();
}

template <typename Group>
SHOAL_HD void encode_radix_chunk(Group& group, const float* in, unsigned n, RadixScratch& s,
                                 std::byte* out) {
  for (unsigned i = group.rank(); i < n; i += Group::kThreads) s.values[i] = in[i];
  group.sync();
  const auto kept = static_cast<unsigned>(sparse2::Layout(n).kept);
  select_entries(group, n, kept, s);
  if (group.rank() == 0) s.common.book = sparse2::codebook_of(s.common.entries, kept);
  group.sync();
  write_sparse_chunk(group, s.common, n, out);
}

}  // namespace shoal::outer_opt::cuda
