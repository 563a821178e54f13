// How a warp encodes and decodes the blocks of the formats of block_formats.h: it takes several
// blocks at a time, and each of its lanes takes the packs of a block that lanes.h assigns to it.
// Blocks start at multiples of their scale's size in the encoding: 4 or 2 bytes.
#pragma once

#include "outer_opt/cuda/block_formats.h"

namespace shoal::outer_opt::cuda {

// Reads and writes the codes of one row of a lane as one unsigned integer of their size.
template <typename Word>
SHOAL_HD std::uint32_t load_word(const std::byte* in) {
  return *reinterpret_cast<const Word*>(in);
}
template <typename Word>
SHOAL_HD void store_word(std::uint32_t word, std::byte* out) {
  *reinterpret_cast<Word*>(out) = static_cast<Word>(word);
}

// A lane's share of a block that was loaded to be decoded.
template <unsigned kValues, unsigned kWidth>
struct LaneCodes {
  std::uint32_t scale;  // bits
  std::uint32_t row[LaneValues<kValues, kWidth>::kRows];
  LaneValues<kValues, kWidth> target;
};

template <typename Format>
struct Block {
  static constexpr unsigned kValues = Format::kValues, kNarrow = Format::kNarrow;
  static constexpr unsigned kScaleBytes = sizeof(typename Format::ScaleWord);
  SHOAL_HD static constexpr std::size_t bytes(std::size_t n) {
    return kScaleBytes + (n * Format::kCodeBits + 7) / 8;
  }
  template <unsigned kWidth>
  using Values = LaneValues<kValues, kWidth>;
  template <unsigned kWidth>
  using Codes = LaneCodes<kValues, kWidth>;

  struct Scale {
    std::uint32_t bits;
    float inverse;  // for InUnits
    SHOAL_HD bool empty() const { return !Format::holds_values(bits); }
    SHOAL_HD static float divisor(std::uint32_t bits) {
      return Format::holds_values(bits) ? float_of(bits) : 1.0f;
    }
  };
  SHOAL_HD static Scale scale_of(std::uint32_t max_bits) {
    const std::uint32_t bits = Format::scale_of(max_bits);
    return {bits, Format::InUnits::inverse_of(Scale::divisor(bits))};
  }

  template <unsigned kWidth>
  SHOAL_HD static void encode(unsigned rank, const Values<kWidth>& values, unsigned n, Scale scale,
                              std::byte* out) {
    if (rank == 0) store_word<typename Format::ScaleWord>(scale.bits >> Format::kScaleShift, out);
    const typename Format::InUnits in_units(Scale::divisor(scale.bits), scale.inverse);
    SHOAL_UNROLL
    for (unsigned r = 0; r < values.kRows; ++r) {
      Pack<float, kWidth> units;
      for (unsigned j = 0; j < kWidth; ++j) units.x[j] = in_units(values.row[r].x[j]);
      const std::uint32_t word = Format::codes(units);
      const unsigned at = values.first(rank, r);
      if (values.kWide || at < n) {
        store_word<typename Format::template Word<kWidth>>(scale.empty() ? 0 : word,
                                                           out + codes_at(at));
      }
    }
  }

  template <unsigned kWidth, typename Put>
  SHOAL_HD static Codes<kWidth> load_codes(unsigned rank, const std::byte* in, unsigned n, Put put,
                                           const float* out) {
    Codes<kWidth> codes;
    codes.scale = load_word<typename Format::ScaleWord>(in) << Format::kScaleShift;
    codes.target = load_target<kValues, kWidth>(rank, put, out, n);
    SHOAL_UNROLL
    for (unsigned r = 0; r < Values<kWidth>::kRows; ++r) {
      const unsigned at = Values<kWidth>::first(rank, r);
      codes.row[r] = 0;
      if (Values<kWidth>::kWide || at < n) {
        codes.row[r] = load_word<typename Format::template Word<kWidth>>(in + codes_at(at));
      }
    }
    return codes;
  }

  // false: the scale or a code is not one that an encoder writes.
  template <unsigned kWidth, typename Put>
  SHOAL_HD static bool decode(unsigned rank, const Codes<kWidth>& codes, unsigned n, Put put,
                              float* out) {
    constexpr std::uint32_t kMask = (1u << Format::kCodeBits) - 1;
    Values<kWidth> values;
    bool good = Format::good_scale(codes.scale);
    SHOAL_UNROLL
    for (unsigned r = 0; r < values.kRows; ++r) {
      for (unsigned j = 0; j < kWidth; ++j) {
        const std::uint32_t code = codes.row[r] >> Format::kCodeBits * j & kMask;
        good = good && Format::good_code(code);
        values.row[r].x[j] = Format::value(code, codes.scale);
      }
    }
    put_values(rank, values, codes.target, put, out, n);
    return good;
  }

 private:
  SHOAL_HD static std::size_t codes_at(unsigned value) {
    return kScaleBytes + value * Format::kCodeBits / 8;
  }
};

template <typename Format, std::size_t kBits>
using BlockOf = Block<std::conditional_t<kBits == 4, NibbleFormat<Format>, ByteFormat<Format>>>;

constexpr unsigned kBlockValuesMax = ByteFormat<formats::Int8>::kValues;

// ---- many blocks: `kAhead` of them are loaded before the first one is worked on

// This warp's index, and how many there are. A warp takes kAhead blocks, then skips those of the
// other warps.
struct WarpPlace {
  std::size_t warp, warps;
};

// Calls wide(first block) where kAhead whole blocks can be taken at once, narrow(block, values in
// it) for others.
template <typename Block, unsigned kAhead, typename Wide, typename Narrow>
SHOAL_HD void for_each_block(const WarpPlace& place, std::size_t n, bool packs, Wide wide,
                             Narrow narrow) {
  const std::size_t stride = place.warps * kAhead;
  for (std::size_t block = place.warp * kAhead; block * Block::kValues < n; block += stride) {
    if (packs && (block + kAhead) * Block::kValues <= n) {
      wide(block);
      continue;
    }
    for (unsigned k = 0; k < kAhead && (block + k) * Block::kValues < n; ++k) {
      const std::size_t rest = n - (block + k) * Block::kValues;
      narrow(block + k, static_cast<unsigned>(rest < Block::kValues ? rest : Block::kValues));
    }
  }
}

// Computes the scales of several blocks from their largest magnitudes, which all lanes know: each
// lane computes one scale.
template <typename Block, unsigned kAhead, typename Group>
SHOAL_HD void make_scales(Group& warp, const std::uint32_t (&max_bits)[kAhead],
                          typename Block::Scale (&scales)[kAhead]) {
  std::uint32_t mine = max_bits[0];
  SHOAL_UNROLL
  for (unsigned k = 1; k < kAhead; ++k) mine = warp.rank() == k ? max_bits[k] : mine;
  const typename Block::Scale scale = Block::scale_of(mine);
  SHOAL_UNROLL
  for (unsigned k = 0; k < kAhead; ++k) {
    scales[k] = {warp.from(scale.bits, k), float_of(warp.from(bits_of(scale.inverse), k))};
  }
}

template <typename Block, unsigned kAhead, typename Group>
SHOAL_HD void encode_blocks(Group& warp, const WarpPlace& place, const float* in, std::size_t n,
                            std::byte* out) {
  const auto from = [&](std::size_t block) { return in + block * Block::kValues; };
  const auto to = [&](std::size_t block) { return out + block * Block::bytes(Block::kValues); };
  const auto wide = [&](std::size_t block) {
    typename Block::template Values<kQuad> values[kAhead];
    SHOAL_UNROLL
    for (unsigned k = 0; k < kAhead; ++k) {
      values[k] = load_values<Block::kValues, kQuad>(warp.rank(), from(block + k), Block::kValues);
    }
    std::uint32_t max_bits[kAhead];
    SHOAL_UNROLL
    for (unsigned k = 0; k < kAhead; ++k) max_bits[k] = warp.max(largest(values[k]));
    typename Block::Scale scales[kAhead];
    make_scales<Block, kAhead>(warp, max_bits, scales);
    SHOAL_UNROLL
    for (unsigned k = 0; k < kAhead; ++k) {
      Block::template encode<kQuad>(warp.rank(), values[k], Block::kValues, scales[k],
                                    to(block + k));
    }
  };
  const auto narrow = [&](std::size_t block, unsigned count) {
    const auto values =
        load_values<Block::kValues, Block::kNarrow>(warp.rank(), from(block), count);
    const auto scale = Block::scale_of(warp.max(largest(values)));
    Block::template encode<Block::kNarrow>(warp.rank(), values, count, scale, to(block));
  };
  for_each_block<Block, kAhead>(place, n, holds_packs<kQuad>(in), wide, narrow);
}

// false: a scale or a code is not one that an encoder writes.
template <typename Block, unsigned kAhead, typename Put>
SHOAL_HD bool decode_blocks(unsigned rank, const WarpPlace& place, const std::byte* in,
                            std::size_t n, Put put, float* out) {
  const auto from = [&](std::size_t block) { return in + block * Block::bytes(Block::kValues); };
  const auto to = [&](std::size_t block) { return out + block * Block::kValues; };
  bool good = true;
  const auto wide = [&](std::size_t block) {
    typename Block::template Codes<kQuad> codes[kAhead];
    SHOAL_UNROLL
    for (unsigned k = 0; k < kAhead; ++k) {
      codes[k] = Block::template load_codes<kQuad>(rank, from(block + k), Block::kValues, put,
                                                   to(block + k));
    }
    SHOAL_UNROLL
    for (unsigned k = 0; k < kAhead; ++k) {
      good &= Block::template decode<kQuad>(rank, codes[k], Block::kValues, put, to(block + k));
    }
  };
  const auto narrow = [&](std::size_t block, unsigned count) {
    const auto codes =
        Block::template load_codes<Block::kNarrow>(rank, from(block), count, put, to(block));
    good &= Block::template decode<Block::kNarrow>(rank, codes, count, put, to(block));
  };
  for_each_block<Block, kAhead>(place, n, holds_packs<kQuad>(out), wide, narrow);
  return good;
}

}  // namespace shoal::outer_opt::cuda
