// How much longer a vector can become by being encoded and decoded. A member reports the norm of
// its pseudo-gradient x, the owners of parts see what was decoded, y; a member whose y is longer
// than this allows has sent something else than it reported, and nobody honest can be taken for
// that. The numbers are in the rows of codec_traits.h; this is how they follow.
//
// fp32          y = x.
// bf16, fp16    |y_i - x_i| <= b |x_i| with the error bound b, so |y| <= (1 + b) |x|.
//               Below its normal numbers fp16 has a last place of 2^-24: an error of up to
//               2^-25 more per value, sqrt(n) 2^-25 in the norm.
// int8          |y_i - x_i| <= b M in a block of B = 256 values whose largest magnitude is M, with
//               b = 0.5 / 127. So |y - x|^2 <= B b^2 M^2 <= B b^2 |x|^2 in the block, and in all
//               of them together: |y| <= (1 + b sqrt(B)) |x|, 1.063 |x|.
// int4          The same bound would be 1.81, but y_i is q s only for |x_i| >= (q - 1/2) s, with
//               the step s and q from 1 to 7. Of 128 values one is at least 7 s / (1 + 2^-7) and
//               becomes 7 s, which with the others at just over s / 2 is the worst:
//               |y|^2 / |x|^2 <= (49 + 127) / (48.2 + 127 / 4) < 2.21. More of any larger q gives
//               less: q^2 / (q - 1/2)^2 falls from 4 with q.
// e3m0          Powers of two from s down to 2^-6 s, the next one from 1.5 times one on:
//               y_i^2 <= 16/9 x_i^2, except magnitudes in [2^-7 s, 2^-6 s), which become 2^-6 s.
//               Each adds at most 2^-12 s^2 (1 - 4/9) to 16/9 |x|^2, and the block has a value of
//               at least s / (1 + 2^-7): |y|^2 / |x|^2 <= 16/9 + 127 * 2^-12 * 5/9 * 1.016 < 1.80.
// e5m2          y_i <= 10/9 x_i for normal codes, because 9/8 of a power of two is the smallest
//               value that can become 5/4 of it. Of the codes below, each of 255 values becomes at
//               most 2^-14 units, where the block has one of 57,344: 2^-51 of |x|^2 in all.
// sparse2       The norm that is reported is that of y already (RoundReport.sent_norm).
//
// Clamped values and scales that count as 0 only become smaller. A norm is a sum in double in some
// order, and values are rounded to fp32: 1e-6 apart at most for any vector that a computer holds.
#pragma once

#include <cstdint>

#include "job/job_spec_enums.h"

namespace shoal::outer_opt {

// The largest sum of squares that an honest member which reported `norm` can have sent.
double squares_at_most(CodecKind codec, double norm, std::int64_t values);

}  // namespace shoal::outer_opt
