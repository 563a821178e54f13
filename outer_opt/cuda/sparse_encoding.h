// What the first warp of a thread block makes of the entries of a sparse2 chunk: the codebook and
// the encoding (outer_opt/core/codec/sparse2.h). sparse_lanes.h finds the entries and tells what a
// group is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "outer_opt/core/codec/formats.h"
#include "outer_opt/core/codec/sparse2_chunk.h"
#include "outer_opt/cuda/lanes.h"

namespace shoal::outer_opt::cuda {

inline constexpr unsigned kSparseGroup = 16, kSparseGroups = sparse2::kChunk / kSparseGroup;
inline constexpr unsigned kCandidates = 256;  // at most, of the quick way
// The search for the floor ends when no more groups than that reach it.
inline constexpr unsigned kFloorEnough = sparse2::kKept + sparse2::kKept / 4;

// Sizes of the three parts of an encoding after the codebook, which follow each other in
// SparseScratch::bits.
inline constexpr unsigned kLowWords = 12, kUnaryWords = 4, kCodeWords = 4;
inline constexpr unsigned kSparseWords = kLowWords + kUnaryWords + kCodeWords;
static_assert(32 * kLowWords == sparse2::kLowBits * sparse2::kKept &&
              4 * kUnaryWords == sparse2::kUnaryBytes && 32 * kCodeWords == 2 * sparse2::kKept);

// Memory that the group shares.
struct SparseScratch {
  std::uint32_t largest[kSparseGroups];    // magnitudes
  std::uint32_t floor, ceiling;            // that candidates reach, and do not reach
  std::uint32_t count, kept_count;         // of candidates, of `kept`
  sparse2::Entry candidates[kCandidates];  // in any order
  sparse2::Entry kept[sparse2::kKept];     // in any order
  sparse2::Entry entries[sparse2::kKept];  // by index
  sparse2::Codebook book;
  std::uint32_t bits[kSparseWords];  // what is written, without the codebook
};

// ---- the codebook

// Whether all sums of the entries' magnitudes are exact in double, whatever the order: 24 bits of
// mantissa, 6 for 64 entries and the distance of the exponents fit 53.
template <typename Group>
SHOAL_HD bool sums_exactly(Group& group, const SparseScratch& s, unsigned kept) {
  constexpr std::uint32_t kDistance = 23;
  const std::uint32_t reference = (bits_of(s.entries[0].value) & kMagnitude) >> 23;
  std::uint32_t far = 0;
  for (unsigned k = group.rank(); k < kept; k += Group::kLead) {
    const std::uint32_t exponent = (bits_of(s.entries[k].value) & kMagnitude) >> 23;
    // Within half the distance of one of them, so within the distance of each other.
    const bool near =
        exponent + kDistance / 2 >= reference && reference + kDistance / 2 >= exponent;
    far += near && exponent > 0 && exponent < 255 ? 0u : 1u;
  }
  return group.lead_sum(far) == 0;
}

// The magnitudes of a lane's entries; zeros where there are no more.
template <unsigned kLead>
struct SparseMagnitudes {
  static constexpr unsigned kCount = sparse2::kKept / kLead;
  double x[kCount];
};
template <typename Group>
SHOAL_HD SparseMagnitudes<Group::kLead> load_magnitudes(Group& group, const SparseScratch& s,
                                                        unsigned kept) {
  SparseMagnitudes<Group::kLead> mine;
  SHOAL_UNROLL
  for (unsigned k = 0; k < mine.kCount; ++k) {
    const unsigned at = k * Group::kLead + group.rank();
    mine.x[k] = at < kept ? sparse2::magnitude_of(s.entries[at]) : 0.0;
  }
  return mine;
}

// The values above a threshold that is not negative: their number and their sum.
struct SparseLarger {
  std::uint32_t count;
  double sum;
};
template <typename Group>
SHOAL_HD SparseLarger above(Group& group, const SparseMagnitudes<Group::kLead>& mine,
                            double threshold) {
  SparseLarger larger{0, 0};
  SHOAL_UNROLL
  for (const double magnitude : mine.x) {
    const bool is = magnitude > threshold;
    larger.sum += is ? magnitude : 0.0;
    larger.count += is ? 1u : 0u;
  }
  return {group.lead_sum(larger.count), group.lead_sum(larger.sum)};
}

// sparse2::codebook_of() where the order of the sums does not matter, and a sum less a part of it
// is exact, too. Its iterations change nothing any more once as many entries are above the
// threshold as before.
template <typename Group>
SHOAL_HD sparse2::Codebook codebook_together(Group& group, const SparseScratch& s, unsigned kept) {
  constexpr int kIterations = 8;
  const auto mine = load_magnitudes(group, s, kept);
  const double sum = above(group, mine, 0).sum, total = static_cast<double>(kept);
  sparse2::Codebook book;
  book.threshold = sum / total;
  std::uint32_t before = kept + 1;
  for (int iteration = 0;; ++iteration) {
    const SparseLarger larger = above(group, mine, book.threshold);
    const auto count = static_cast<double>(larger.count);
    // One thread divides for the one mean, another one for the other.
    const bool odd = group.rank() % 2 == 1;
    const double part = odd ? larger.sum : sum - larger.sum, of = odd ? count : total - count;
    const double mean = of > 0 ? part / of : 0;
    book.small = group.lead_from(mean, 0);
    book.large = larger.count > 0 ? group.lead_from(mean, 1) : book.small;
    if (iteration == kIterations || larger.count == before) return book;
    before = larger.count;
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
  group.lead_sync();
}

// ---- the encoding

// No bit is added twice, so additions set them.
template <typename Group>
SHOAL_HD void add_bits(Group& group, const SparseScratch& s, unsigned k, std::uint32_t* bits) {
  const sparse2::Entry entry = s.entries[k];
  const std::uint32_t low = entry.index % (1u << sparse2::kLowBits);
  const unsigned at = sparse2::kLowBits * k, shift = at % 32;
  group.add(&bits[at / 32], low << shift);
  if (shift + sparse2::kLowBits > 32) group.add(&bits[at / 32 + 1], low >> (32 - shift));
  const unsigned one = (entry.index >> sparse2::kLowBits) + k;
  group.add(&bits[kLowWords + one / 32], 1u << one % 32);
  const std::uint32_t code = sparse2::code_of(entry, s.book);
  group.add(&bits[kLowWords + kUnaryWords + k / 16], code << 2 * (k % 16));
}

// One byte of the encoding; the layout is that of sparse2.h.
SHOAL_HD inline std::byte sparse_byte(const SparseScratch& s, const sparse2::Layout& layout,
                                      unsigned at) {
  if (at < sparse2::kCodebookBytes) {
    const double magnitude = at < 2 ? s.book.small : s.book.large;
    return static_cast<std::byte>(sparse2::stored_magnitude(magnitude) >> 8 * (at % 2) & 0xff);
  }
  const auto unary = static_cast<unsigned>(layout.unary),
             codes = static_cast<unsigned>(layout.codes);
  unsigned byte = at - sparse2::kCodebookBytes;
  if (at >= codes) {
    byte = 4 * (kLowWords + kUnaryWords) + at - codes;
  } else if (at >= unary) {
    byte = 4 * kLowWords + at - unary;
  }
  return static_cast<std::byte>(s.bits[byte / 4] >> 8 * (byte % 4) & 0xffu);
}

template <typename Group>
SHOAL_HD void write_sparse_chunk(Group& group, SparseScratch& s, const sparse2::Layout& layout,
                                 std::byte* out) {
  for (unsigned k = group.rank(); k < kSparseWords; k += Group::kLead) s.bits[k] = 0;
  group.lead_sync();
  for (unsigned k = group.rank(); k < layout.kept; k += Group::kLead) {
    add_bits(group, s, k, s.bits);
  }
  group.lead_sync();
  for (unsigned at = group.rank(); at < layout.size; at += Group::kLead) {
    out[at] = sparse_byte(s, layout, at);
  }
}

}  // namespace shoal::outer_opt::cuda
