#include "coordinator/core/decisions/compute_watch.h"

#include <algorithm>

namespace shoal::coordinator {

// The longest pause counts at once and is forgotten slowly: by half after three reports.
void ComputeWatch::said(Instant now, bool works) {
  if (works && works_ && word_) {
    const Duration pause = now - *word_;
    usual_ = std::max(pause, usual_ * 3 / 4 + pause / 4);
  }
  listen_from(now);
  works_ = works;
}

void ComputeWatch::listen_from(Instant now) {
  word_ = now;
  works_ = false;
  asked = false;
}

Duration ComputeWatch::limit(const Options& options) const {
  if (usual_.ns == 0) return options.first_step_limit;
  return std::max(options.step_limit, patience(options));
}

Duration ComputeWatch::patience(const Options& options) const {
  return seconds_f(usual_.seconds() * options.step_factor);
}

}  // namespace shoal::coordinator
