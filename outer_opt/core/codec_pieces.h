// Codecs over a payload that lies in pieces (frame.h), as it comes from the network: blocks that
// are cut between two pieces are put together first, the rest is read where it lies. Pure and
// thread-safe.
#pragma once

#include "outer_opt/core/codec.h"
#include "outer_opt/core/frame.h"

namespace shoal::outer_opt {

// The pieces hold the encoding of out.size() or sum.size() values; errors as Codec::decode().
Status decode_pieces(const Codec& codec, Pieces pieces, std::span<float> out);
Status accumulate_pieces(const Codec& codec, Pieces pieces, float factor, std::span<float> sum);

}  // namespace shoal::outer_opt
