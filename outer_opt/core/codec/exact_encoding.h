// Values that a codec has decoded once fit into its bytes again, without loss: an average is kept
// for joiners as small as it traveled (outer_opt/core/joining/average_log.h). Each segment is
// stored in the first form that gives its bits back:
//
//   as `codec` encodes it   one that decoded it before; blocks count from the segment's start.
//                           A scale in fp32 is found again among its neighbors: a
//                           product of 127 and a float need not divide back to that float.
//   as a bitmap and values  one bit per value says whether it follows; what does not is +0. For
//                           averages of sparse2.
//   as it is                fp32
//
// Pure and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/enumerators.h"
#include "base/result.h"
#include "job/job_spec.h"

namespace shoal::outer_opt {

enum class ExactForm : std::uint8_t { kPlain, kCodec, kBitmap };
constexpr auto enumerators_of(Of<ExactForm>) {
  using enum ExactForm;
  return enumerators<ExactForm>({{kPlain, "plain"}, {kCodec, "codec"}, {kBitmap, "bitmap"}});
}

struct ExactEncoding {
  ExactForm form = ExactForm::kPlain;
  std::vector<std::byte> bytes;
};

// `codec` may be kSparse2, which has no form of its own here.
ExactEncoding encode_exactly(CodecKind codec, std::span<const float> values);

// Fills `out` with the bits that were encoded. kDataLoss when `bytes` are no encoding of as many
// values.
Status decode_exactly(CodecKind codec, ExactForm form, std::span<const std::byte> bytes,
                      std::span<float> out);

}  // namespace shoal::outer_opt
