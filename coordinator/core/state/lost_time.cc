#include "coordinator/core/state/lost_time.h"

#include <algorithm>

namespace shoal::coordinator {

void LostTime::add(Instant from, Instant to) {
  if (!gaps_.empty()) from = std::max(from, gaps_.back().to);
  if (from >= to) return;
  gaps_.push_back({from, to});
  if (gaps_.size() > kGapsMax) gaps_.pop_front();
}

Instant LostTime::deadline(Instant start, Duration limit) const {
  Instant due = start + limit;
  for (const Gap& gap : gaps_) {
    const Instant from = std::max(gap.from, start);
    if (from < gap.to && from < due) due = due + (gap.to - from);
  }
  return due;
}

}  // namespace shoal::coordinator
