// What the threads of a thread block do with one chunk of sparse2 (outer_opt/core/codec/sparse2.h).
//
// Every thread keeps its values in registers, in groups of 16. The largest magnitude of
// each of the 256 groups is noted; what 64 of them reach is a floor below which no kept value lies,
// and few others lie above it: some 75 of 4,096 values of a normal distribution. These candidates
// are gathered, and the first warp alone does the rest, so that nobody waits for barriers: it finds
// the magnitude of the 64th largest by bisection of the bit patterns, puts what is kept in the
// order of the indices, makes the codebook and writes. Where many values are equal there may be too
// many candidates; then all threads search among all values.
//
// A group has, beside rank() (lanes.h),
//   static constexpr unsigned kThreads, kLead;   how many, and those of the first warp among them
//   void sync();                                 a barrier that orders memory shared by the group
//   std::uint32_t sum(std::uint32_t value);      over all threads; everybody calls it
//   std::uint32_t add(std::uint32_t* shared, std::uint32_t value);  atomically; what was there
// and for the first warp, all of which calls them,
//   void lead_sync();
//   std::uint32_t lead_sum(std::uint32_t value), lead_max(std::uint32_t value);
//   double lead_sum(double value);               in any order
//   double lead_from(double value, unsigned rank);   that of this thread
#pragma once

#include <cstddef>
#include <cstdint>

#include "outer_opt/cuda/lanes.h"
#include "outer_opt/cuda/sparse_encoding.h"

namespace shoal::outer_opt::cuda {

// The values of one thread, in quads; zeros beyond the chunk.
template <unsigned kThreads>
struct SparseShare {
  static constexpr unsigned kCount = sparse2::kChunk / kThreads;
  float x[kCount];

  SHOAL_HD static unsigned index(unsigned rank, unsigned j) {
    return (j / kQuad * kThreads + rank) * kQuad + j % kQuad;
  }
  SHOAL_HD std::uint32_t magnitude(unsigned j) const { return bits_of(x[j]) & kMagnitude; }
};

template <typename Group>
SHOAL_HD SparseShare<Group::kThreads> load_share(Group& group, const float* in, unsigned n) {
  SparseShare<Group::kThreads> share;
  if (n == sparse2::kChunk && holds_packs<kQuad>(in)) {
    SHOAL_UNROLL
    for (unsigned j = 0; j < share.kCount; j += kQuad) {
      const auto quad = load_pack<kQuad>(in + share.index(group.rank(), j));
      for (unsigned k = 0; k < kQuad; ++k) share.x[j + k] = quad.x[k];
    }
    return share;
  }
  SHOAL_UNROLL
  for (unsigned j = 0; j < share.kCount; ++j) {
    const unsigned i = share.index(group.rank(), j);
    share.x[j] = i < n ? in[i] : 0.0f;
  }
  return share;
}

// ---- the 64 largest

// Bisection between `low`, which at least `wanted` reach, and `high`, which fewer do: the highest
// value that `wanted` reach, or one before it that no more than `enough` reach.
template <typename Reaching>
SHOAL_HD std::uint32_t highest(std::uint32_t low, std::uint32_t high, std::uint32_t wanted,
                               std::uint32_t enough, Reaching reaching) {
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    const std::uint32_t count = reaching(middle);
    (count >= wanted ? low : high) = middle;
    if (count >= wanted && count <= enough) break;
  }
  return low;
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

// What keeps `kept` values, with magnitudes from `low` to below `high`; count_if(such) tells how
// many such(magnitude, index) there are. Among equal magnitudes the earlier values are kept.
template <typename CountIf>
SHOAL_HD SparseCut find_cut(std::uint32_t low, std::uint32_t high, unsigned kept,
                            CountIf count_if) {
  const auto reaching = [&](std::uint32_t least) {
    return count_if([=](std::uint32_t magnitude, unsigned) { return magnitude >= least; });
  };
  const std::uint32_t magnitude = highest(low, high, kept, kept, reaching);
  if (reaching(magnitude) == kept) return {magnitude, sparse2::kChunk};
  unsigned few = 0, enough = sparse2::kChunk;
  while (enough - few > 1) {
    const SparseCut cut{magnitude, (few + enough) / 2};
    const auto keeps = [=](std::uint32_t of_value, unsigned i) { return cut.keeps(of_value, i); };
    (count_if(keeps) >= kept ? enough : few) = cut.end;
  }
  return {magnitude, enough};
}

template <unsigned kThreads>
SHOAL_HD void put_down_largest(unsigned rank, const SparseShare<kThreads>& share,
                               SparseScratch& s) {
  constexpr unsigned kOfThread = SparseShare<kThreads>::kCount / kSparseGroup;
  SHOAL_UNROLL
  for (unsigned g = 0; g < kOfThread; ++g) {
    std::uint32_t largest = 0;
    SHOAL_UNROLL
    for (unsigned j = 0; j < kSparseGroup; ++j) {
      const std::uint32_t magnitude = share.magnitude(g * kSparseGroup + j);
      if (magnitude > largest) largest = magnitude;
    }
    s.largest[rank * kOfThread + g] = largest;
  }
}

// By the first warp.
template <typename Group>
SHOAL_HD void find_floor(Group& group, unsigned kept, SparseScratch& s) {
  static_assert(Group::kLead > 1);
  constexpr unsigned kMine = kSparseGroups / Group::kLead;
  std::uint32_t mine[kMine], most = 0, least = kInfinity;
  SHOAL_UNROLL
  for (unsigned k = 0; k < kMine; ++k) {
    mine[k] = s.largest[k * Group::kLead + group.rank()];
    most = mine[k] > most ? mine[k] : most;
    least = mine[k] < least ? mine[k] : least;
  }
  const std::uint32_t high = group.lead_max(most) + 1, low = ~group.lead_max(~least);
  const std::uint32_t floor = highest(low, high, kept, kFloorEnough, [&](std::uint32_t value) {
    std::uint32_t count = 0;
    SHOAL_UNROLL
    for (unsigned k = 0; k < kMine; ++k) count += mine[k] >= value ? 1u : 0u;
    return group.lead_sum(count);
  });
  if (group.rank() == 0) s.floor = floor, s.ceiling = high, s.count = 0, s.kept_count = 0;
}

SHOAL_HD inline unsigned lowest_bit(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return static_cast<unsigned>(__ffs(static_cast<int>(bits))) - 1;
#else
  return static_cast<unsigned>(__builtin_ctz(bits));
#endif
}

// Stores the values for which `such` holds, as far as there is room. They are read again: registers
// cannot be indexed at run time.
template <typename Group, typename Such>
SHOAL_HD void gather(Group& group, const SparseShare<Group::kThreads>& share, const float* in,
                     Such such, SparseScratch& s) {
  constexpr unsigned kWord = share.kCount < 32 ? share.kCount : 32;
  SHOAL_UNROLL
  for (unsigned first = 0; first < share.kCount; first += kWord) {
    std::uint32_t found = 0;
    SHOAL_UNROLL
    for (unsigned j = 0; j < kWord; ++j) {
      const unsigned i = share.index(group.rank(), first + j);
      found |= (such(share.magnitude(first + j), i) ? 1u : 0u) << j;
    }
    for (; found != 0; found &= found - 1) {
      const unsigned i = share.index(group.rank(), first + lowest_bit(found));
      const std::uint32_t at = group.add(&s.count, 1);
      if (at < kCandidates) s.candidates[at] = {i, in[i]};
    }
  }
}

// When there are too many candidates: what is kept becomes the candidates.
template <typename Group>
SHOAL_HD void search_everywhere(Group& group, const SparseShare<Group::kThreads>& share,
                                const float* in, unsigned kept, SparseScratch& s) {
  const auto count_if = [&](auto such) {
    std::uint32_t mine = 0;
    SHOAL_UNROLL
    for (unsigned j = 0; j < share.kCount; ++j) {
      mine += such(share.magnitude(j), share.index(group.rank(), j)) ? 1u : 0u;
    }
    return group.sum(mine);
  };
  const SparseCut cut = find_cut(s.floor, s.ceiling, kept, count_if);
  if (group.rank() == 0) s.count = 0;
  group.sync();
  gather(
      group, share, in,
      [=](std::uint32_t magnitude, unsigned i) { return cut.keeps(magnitude, i); }, s);
  group.sync();
}

// By the first warp: those of the candidates that are kept, which padding never is.
template <typename Group>
SHOAL_HD void keep_largest(Group& group, unsigned kept, SparseScratch& s) {
  constexpr unsigned kMine = kCandidates / Group::kLead;
  sparse2::Entry mine[kMine];
  SHOAL_UNROLL
  for (unsigned k = 0; k < kMine; ++k) {
    const unsigned at = k * Group::kLead + group.rank();
    mine[k] = at < s.count ? s.candidates[at] : sparse2::Entry{sparse2::kChunk, 0.0f};
  }
  const auto is = [&](unsigned k, auto such) {
    return mine[k].index < sparse2::kChunk &&
           such(bits_of(mine[k].value) & kMagnitude, mine[k].index);
  };
  const auto count_if = [&](auto such) {
    std::uint32_t count = 0;
    SHOAL_UNROLL
    for (unsigned k = 0; k < kMine; ++k) count += is(k, such) ? 1u : 0u;
    return group.lead_sum(count);
  };
  const SparseCut cut = find_cut(s.floor, s.ceiling, kept, count_if);
  const auto keeps = [&](std::uint32_t magnitude, unsigned i) { return cut.keeps(magnitude, i); };
  SHOAL_UNROLL
  for (unsigned k = 0; k < kMine; ++k) {
    if (is(k, keeps)) s.kept[group.add(&s.kept_count, 1)] = mine[k];
  }
  group.lead_sync();
}

// By the first warp: each entry goes where as many are before it as have a smaller index.
template <typename Group>
SHOAL_HD void put_in_order(Group& group, unsigned kept, SparseScratch& s) {
  constexpr unsigned kMine = sparse2::kKept / Group::kLead;
  unsigned mine[kMine], before[kMine] = {};
  SHOAL_UNROLL
  for (unsigned k = 0; k < kMine; ++k) mine[k] = s.kept[k * Group::kLead + group.rank()].index;
  for (unsigned other = 0; other < kept; ++other) {
    const unsigned index = s.kept[other].index;
    SHOAL_UNROLL
    for (unsigned k = 0; k < kMine; ++k) before[k] += (index - mine[k]) >> 31;  // the sign
  }
  SHOAL_UNROLL
  for (unsigned k = 0; k < kMine; ++k) {
    const unsigned from = k * Group::kLead + group.rank();
    if (from < kept) s.entries[before[k]] = s.kept[from];
  }
  group.lead_sync();
}

// ---- a chunk

template <typename Group>
SHOAL_HD void encode_sparse_chunk(Group& group, const float* in, unsigned n, SparseScratch& s,
                                  std::byte* out) {
  const sparse2::Layout layout(n);
  const auto kept = static_cast<unsigned>(layout.kept);
  const auto share = load_share(group, in, n);
  put_down_largest(group.rank(), share, s);
  group.sync();
  const bool leads = group.rank() < Group::kLead;
  if (leads) find_floor(group, kept, s);
  group.sync();
  const std::uint32_t floor = s.floor;
  gather(
      group, share, in, [=](std::uint32_t magnitude, unsigned) { return magnitude >= floor; }, s);
  group.sync();
  if (s.count > kCandidates) search_everywhere(group, share, in, kept, s);
  if (leads) {
    keep_largest(group, kept, s);
    put_in_order(group, kept, s);
    make_codebook(group, s, kept);
    write_sparse_chunk(group, s, layout, out);
  }
  group.sync();
}

}  // namespace shoal::outer_opt::cuda
