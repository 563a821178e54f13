// See training_speed.h.
#include "replica/runtime/training_speed.h"

#include <utility>

#include "base/check.h"

namespace shoal::replica {
namespace {

constexpr std::chrono::seconds kReadEvery{1};

}  // namespace

std::chrono::steady_clock::duration TrainingSpeed::elapsed(Time now) const {
  return runs_ ? before_ + (now - since_) : before_;
}

void TrainingSpeed::go_on(Time now) {
  if (runs_) return;
  runs_ = true;
  since_ = now;
}

bool TrainingSpeed::pause(Time now) {
  before_ = elapsed(now);
  return std::exchange(runs_, false);
}

bool TrainingSpeed::due(Time now) const { return tokens_ > Tokens() && elapsed(now) >= kReadEvery; }

double TrainingSpeed::read(Time now) {
  SHOAL_CHECK(due(now));
  const double seconds = std::chrono::duration<double>(elapsed(now)).count();
  const double rate = static_cast<double>(tokens_.count()) / seconds;
  tokens_ = Tokens();
  before_ = {};
  since_ = now;
  return rate;
}

}  // namespace shoal::replica
