#include "proto/unreadable.h"

namespace shoal::proto {
namespace {

std::optional<ReplicaFailed> refusal(std::uint64_t replica, const Error& why,
                                     const std::string& program) {
  if (replica == 0) return std::nullopt;
  return ReplicaFailed{ReplicaId(replica), ReplicaFailure::kDataInvalid,
                       "this version of " + program + " cannot read the job: " + why.message +
                           "; upgrade Shoal on this host"};
}

}  // namespace

std::optional<ReplicaFailed> refusal_of(const v1::CoordinatorMessage& order, const Error& why,
                                        const std::string& program) {
  return refusal(order.has_assign() ? order.assign().replica() : 0, why, program);
}

std::optional<ReplicaFailed> refusal_of(const v1::TrainerCommand& order, const Error& why,
                                        const std::string& program) {
  return refusal(order.has_load() ? order.load().assign().replica() : 0, why, program);
}

}  // namespace shoal::proto
