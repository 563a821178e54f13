#include "outer_opt/core/codec_pieces.h"

#include <algorithm>
#include <cstring>

namespace shoal::outer_opt {
namespace {

// Calls use(encoded, first, count) for runs of whole blocks that cover `count` values. Runs lie in
// one piece; a block that is cut between pieces is copied together first.
template <typename Use>
Status for_each_run(const Codec& codec, Pieces pieces, std::size_t count, Use use) {
  constexpr std::size_t kBlock = kCodecRun;
  const std::size_t unit = codec.encoded_size(kBlock);
  std::array<std::byte, kBlock * sizeof(float)> scratch;
  std::size_t piece = 0, offset = 0;
  for (std::size_t first = 0; first < count;) {
    while (offset == pieces[piece].size()) ++piece, offset = 0;
    const std::size_t left = count - first;
    const auto rest = pieces[piece].subspan(offset);
    const std::size_t whole =
        rest.size() >= codec.encoded_size(left) ? left : rest.size() / unit * kBlock;
    if (whole > 0) {
      const std::size_t size = codec.encoded_size(whole);
      if (Status s = use(rest.first(size), first, whole); !s.ok()) return s;
      offset += size;
      first += whole;
      continue;
    }
    const std::size_t n = std::min(kBlock, left), size = codec.encoded_size(n);
    for (std::size_t filled = 0; filled < size;) {
      while (offset == pieces[piece].size()) ++piece, offset = 0;
      const std::size_t take = std::min(size - filled, pieces[piece].size() - offset);
      std::memcpy(&scratch[filled], &pieces[piece][offset], take);
      filled += take;
      offset += take;
    }
    if (Status s = use(std::span(scratch).first(size), first, n); !s.ok()) return s;
    first += n;
  }
  return {};
}

}  // namespace

Status decode_pieces(const Codec& codec, Pieces pieces, std::span<float> out) {
  return for_each_run(codec, pieces, out.size(), [&](auto bytes, auto first, auto n) {
    return codec.decode(bytes, out.subspan(first, n));
  });
}

Status accumulate_pieces(const Codec& codec, Pieces pieces, float factor, std::span<float> sum) {
  return for_each_run(codec, pieces, sum.size(), [&](auto bytes, auto first, auto n) {
    return codec.accumulate(bytes, factor, sum.subspan(first, n));
  });
}

}  // namespace shoal::outer_opt
