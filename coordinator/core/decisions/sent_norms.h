// Did the members of a reduce send what they reported? A pure decision over what the owners of the
// parts say that they were sent.
//
// A member reports the norm of its pseudo-gradient, and its clip factor follows from that. Each
// owner of a part sums the squares of what the member sent it. The sum over the parts may be above
// the square of the norm only by what the codec can add (norm_bound.h). A member
// sends its own part to nobody, so the sum omits that part. Hence the sum never exceeds the truth,
// and no member is blamed for what it did not send. A member that sends less than it reported is
// clipped harder than necessary, which is not a fault.
//
// If the sum is above the report, believe:
//
//   still above without the largest word   more than one owner says so: the member lied, by name
//   above by the word of one owner         either of the two lied. The attempt is void, and in the
//                                          next one that owner owns nothing
//   again so, by another owner             the member lied
//   nobody else can own a part             the member counts with weight 0, and nobody is blamed
//
// So one owner that lies costs an attempt of its rounds and is named beside the one it accused, but
// nobody is charged on its word; one member that lies is charged in the first attempt or the
// second. Two that lie together could get a third charged.
//
// In an all-gather everybody is sent everything: the member lied when most of the others say so,
// and at least two; a single word against others is not heard.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "job/job_spec_enums.h"
#include "outer_opt/core/round/audit.h"

namespace shoal::coordinator {

struct Sender {
  ReplicaId replica;
  double norm = 0;  // of what it sends, as it reported
  bool contributes = true;
  std::vector<double> squares;  // that it voted with, by the order of the senders; or empty
};

struct SentNormsInput {
  CodecKind codec = CodecKind::kInt8;
  std::int64_t value_count = 0;
  bool all_see_all = false;
  std::vector<Sender> members;                     // in the plan's order
  std::vector<outer_opt::Accusation> accusations;  // of earlier attempts, that stood alone
};

struct FalseNorm {
  ReplicaId member;
  double reported = 0, sent = 0;  // norms; of the sent one what others have seen
  bool operator==(const FalseNorm&) const = default;
};

struct SentNorms {
  std::vector<FalseNorm> lied;
  std::vector<outer_opt::Accusation> alone;
};

SentNorms judge_sent_norms(const SentNormsInput& input);

}  // namespace shoal::coordinator
