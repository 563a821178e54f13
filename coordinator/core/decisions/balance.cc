#include "coordinator/core/decisions/balance.h"

#include <algorithm>
#include <cmath>

namespace shoal::coordinator {
namespace {

// Steps per second that one FLOP/s of a device is worth; 1 when nobody has both figures, so that
// devices are compared with each other.
double steps_per_flop(const std::vector<ReplicaSpeed>& replicas) {
  double sum = 0;
  int known = 0;
  for (const ReplicaSpeed& r : replicas) {
    if (r.steps_per_s <= 0 || r.device <= 0) continue;
    sum += r.steps_per_s / r.device;
    ++known;
  }
  return known == 0 ? 1 : sum / known;
}

// Zero where nothing is known.
std::vector<double> speeds_of(const std::vector<ReplicaSpeed>& replicas) {
  const bool measured = std::any_of(replicas.begin(), replicas.end(),
                                    [](const ReplicaSpeed& r) { return r.steps_per_s > 0; });
  const bool both = std::any_of(replicas.begin(), replicas.end(), [](const ReplicaSpeed& r) {
    return r.steps_per_s > 0 && r.device > 0;
  });
  const double worth = steps_per_flop(replicas);
  std::vector<double> speeds;
  for (const ReplicaSpeed& r : replicas) {
    const bool by_device = !measured || both;  // else the two cannot be compared
    speeds.push_back(r.steps_per_s > 0 ? r.steps_per_s : by_device ? worth * r.device : 0);
  }
  return speeds;
}

}  // namespace

std::vector<Steps> balanced_steps(Steps every, const std::vector<ReplicaSpeed>& replicas) {
  std::vector<double> speeds = speeds_of(replicas);
  double sum = 0;
  int known = 0;
  for (const double speed : speeds) {
    sum += speed;
    known += speed > 0 ? 1 : 0;
  }
  const double mean = known == 0 ? 1 : sum / known;
  for (double& speed : speeds) speed = speed > 0 ? speed : mean;
  const double fastest = speeds.empty() ? 1 : *std::max_element(speeds.begin(), speeds.end());
  std::vector<Steps> steps;
  for (const double speed : speeds) {
    const double share = std::floor(speed / fastest * static_cast<double>(every.count()));
    steps.emplace_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(share), 1,
                                                std::max<std::int64_t>(1, every.count())));
  }
  return steps;
}

}  // namespace shoal::coordinator
