// What the threads of a thread block do with one chunk of sparse2 (outer_opt/core/codec/sparse2.h).
// lanes.h tells what a group is.
//
// Every thread keeps its values in registers. The magnitude of the 64th largest value is found by
// bisection of the bit patterns: a candidate is kept when at least 64 values reach it, and the
// search ends as soon as exactly 64 do. So nothing is counted in shared memory, where values of one
// exponent would all meet at the same counter. The entries come in any order and are put in the
// order of their indices by counting the smaller ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outer_opt/core/codec/formats.h"
#include "outer_opt/core/codec/sparse2_chunk.h"
#include "outer_opt/cuda/lanes.h"

namespace shoal::outer_opt::cuda {

// Memory that the group shares.
struct SparseScratch {
  std::uint32_t count;                     // entries found
  sparse2::Entry found[sparse2::kKept];    // in any order
  sparse2::Entry entries[sparse2::kKept];  // by index
  sparse2::Codebook book;
};

// The values of one thread: those at rank, rank + kThreads, …; zeros beyond the chunk.
template <unsigned kThreads>
struct SparseShare {
  static constexpr unsigned kCount = sparse2::kChunk / kThreads;
  float x[kCount];

  SHOAL_HD static unsigned index(unsigned rank, unsigned j) { return rank + j * kThreads; }
  SHOAL_HD std::uint32_t magnitude(unsigned j) const { return bits_of(x[j]) & kMagnitude; }
};

template <typename Group>
SHOAL_HD SparseShare<Group::kThreads> load_share(Group& group, const float* in, unsigned n) {
  SparseShare<Group::kThreads> share;
  SHOAL_UNROLL
  for (unsigned j = 0; j < share.kCount; ++j) {
    const unsigned i = share.index(group.rank(), j);
    share.x[j] = i < n ? in[i] : 0.0f;
  }
  return share;
}

// How many values of the whole group are such ones.
template <typename Group, typename Such>
SHOAL_HD std::uint32_t count_if(Group& group, const SparseShare<Group::kThreads>& share,
                                Such such) {
  std::uint32_t mine = 0;
  SHOAL_UNROLL
  for (unsigned j = 0; j < share.kCount; ++j) mine += such(j) ? 1u : 0u;
  return group.sum(mine);
}

// Which values are kept: those above the magnitude, and of those that have it the ones before
// `end`.
struct SparseCut {
  std::uint32_t magnitude;
  unsigned end;
  SHOAL_HD bool keeps(std::uint32_t of_value, unsigned index) const {
    return of_value > magnitude || (of_value == magnitude && index < end);
  }
};

// Of equal magnitudes the earlier values are kept: the smallest end that keeps enough.
template <typename Group>
SHOAL_HD SparseCut cut_among_equal(Group& group, const SparseShare<Group::kThreads>& share,
                                   std::uint32_t magnitude, unsigned kept) {
  unsigned low = 0, high = sparse2::kChunk;  // too few, enough
  while (high - low > 1) {
    const SparseCut cut{magnitude, (low + high) / 2};
    const std::uint32_t count = count_if(group, share, [&](unsigned j) {
      return cut.keeps(share.magnitude(j), share.index(group.rank(), j));
    });
    (count >= kept ? high : low) = cut.end;
  }
  return {magnitude, high};
}

template <typename Group>
SHOAL_HD SparseCut find_cut(Group& group, const SparseShare<Group::kThreads>& share,
                            unsigned kept) {
  std::uint32_t magnitude = 0;
  for (int bit = 30; bit >= 0; --bit) {
    const std::uint32_t candidate = magnitude | 1u << bit;
    const std::uint32_t count =
        count_if(group, share, [&](unsigned j) { return share.magnitude(j) >= candidate; });
    if (count >= kept) magnitude = candidate;
    if (count == kept) return {magnitude, sparse2::kChunk};
  }
  return cut_among_equal(group, share, magnitude, kept);
}

// The entries with the largest magnitudes, by index.
template <typename Group>
SHOAL_HD void select_entries(Group& group, const SparseShare<Group::kThreads>& share, unsigned kept,
                             SparseScratch& s) {
  const SparseCut cut = find_cut(group, share, kept);
  if (group.rank() == 0) s.count = 0;
  group.sync();
  SHOAL_UNROLL
  for (unsigned j = 0; j < share.kCount; ++j) {
    const unsigned i = share.index(group.rank(), j);
    if (cut.keeps(share.magnitude(j), i)) s.found[group.add(&s.count, 1)] = {i, share.x[j]};
  }
  group.sync();
  for (unsigned k = group.rank(); k < kept; k += Group::kThreads) {
    unsigned before = 0;
    for (unsigned other = 0; other < kept; ++other) {
      before += s.found[other].index < s.found[k].index ? 1u : 0u;
    }
    s.entries[before] = s.found[k];
  }
  group.sync();
}

// Whether all sums of the entries' magnitudes are exact in double, whatever the order: 24 bits of
// mantissa, 6 for 64 entries and the distance of the exponents fit 53.
template <typename Group>
SHOAL_HD bool sums_exactly(Group& group, const SparseScratch& s, unsigned kept) {
  constexpr std::uint32_t kDistance = 23;
  const std::uint32_t reference = (bits_of(s.entries[0].value) & kMagnitude) >> 23;
  std::uint32_t far = 0;
  for (unsigned k = group.rank(); k < kept; k += Group::kThreads) {
    const std::uint32_t exponent = (bits_of(s.entries[k].value) & kMagnitude) >> 23;
    // Within half the distance of one of them, so within the distance of each other.
    const bool near =
        exponent + kDistance / 2 >= reference && reference + kDistance / 2 >= exponent;
    far += near && exponent > 0 && exponent < 255 ? 0u : 1u;
  }
  return group.sum(far) == 0;
}

// sparse2::codebook_of() by all threads, where the order of the sums does not matter.
template <typename Group>
SHOAL_HD sparse2::Codebook codebook_together(Group& group, const SparseScratch& s, unsigned kept) {
  constexpr int kIterations = 8;
  const auto total = static_cast<double>(kept);
  sparse2::Codebook book;
  for (int iteration = -1;; ++iteration) {  // the first threshold is the mean
    double small = 0, large = 0;
    std::uint32_t above = 0;
    for (unsigned k = group.rank(); k < kept; k += Group::kThreads) {
      const double m = sparse2::magnitude_of(s.entries[k]);
      const bool is_large = iteration >= 0 && m > book.threshold;
      (is_large ? large : small) += m;
      above += is_large ? 1u : 0u;
    }
    small = group.sum(small);
    if (iteration < 0) {
      book.threshold = small / total;
      continue;
    }
    large = group.sum(large);
    const auto larger = static_cast<double>(group.sum(above));
    const double smaller = total - larger;
    book.small = smaller > 0 ? small / smaller : 0;
    book.large = larger > 0 ? large / larger : book.small;
    if (iteration == kIterations) return book;
    book.threshold = (book.small + book.large) / 2;
  }
}

template <typename Group>
SHOAL_HD void make_codebook(Group& group, SparseScratch& s, unsigned kept) {
  if (sums_exactly(group, s, kept)) {
    const sparse2::Codebook book = codebook_together(group, s, kept);
    if (group.rank() == 0) s.book = book;
  } else if (group.rank() == 0) {
    s.book = sparse2::codebook_of(s.entries, kept);
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
SHOAL_HD void write_sparse_chunk(Group& group, const SparseScratch& s, unsigned n, std::byte* out) {
  const sparse2::Layout layout(n);
  for (unsigned at = group.rank(); at < layout.size; at += Group::kThreads) {
    out[at] = sparse_byte(s, layout, at);
  }
  group.sync();
}

template <typename Group>
SHOAL_HD void encode_sparse_chunk(Group& group, const float* in, unsigned n, SparseScratch& s,
                                  std::byte* out) {
  const auto kept = static_cast<unsigned>(sparse2::Layout(n).kept);
  const auto share = load_share(group, in, n);
  select_entries(group, share, kept, s);
  make_codebook(group, s, kept);
  write_sparse_chunk(group, s, n, out);
}

}  // namespace shoal::outer_opt::cuda
