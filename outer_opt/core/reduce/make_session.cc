#include "outer_opt/core/reduce/make_session.h"

#include "outer_opt/core/reduce/allgather_session.h"
#include "outer_opt/core/reduce/butterfly_session.h"
#include "outer_opt/core/reduce/ring_session.h"

namespace shoal::outer_opt {
namespace {

template <typename Session>
Result<std::unique_ptr<ReduceSession>> make(const ReducePlan& plan, ReplicaId self,
                                            std::int64_t frame_values, const ReduceInput& input,
                                            std::span<float> average) {
  const Status fits = Session::check(plan, self, frame_values, input, average.size());
  if (!fits.ok()) return fits.error();
  return std::unique_ptr<ReduceSession>(
      std::make_unique<Session>(plan, self, frame_values, input, average));
}

}  // namespace

Result<std::unique_ptr<ReduceSession>> make_session(const ReducePlan& plan, ReplicaId self,
                                                    std::int64_t frame_values,
                                                    const ReduceInput& input,
                                                    std::span<float> average) {
  if (plan.owner_step && plan.topology != Topology::kButterfly) {
    return refused_plan("topology", std::string("must be butterfly with an owner step, got ") +
                                        to_string(plan.topology));
  }
  switch (plan.topology) {
    case Topology::kButterfly:
    case Topology::kParamServer:
      return make<ButterflySession>(plan, self, frame_values, input, average);
    case Topology::kAllgather:
      return make<AllgatherSession>(plan, self, frame_values, input, average);
    case Topology::kRing:
      return make<RingSession>(plan, self, frame_values, input, average);
    case Topology::kMoshpit:
    case Topology::kGossip:
    case Topology::kAuto:
      break;
  }
  return refused_plan("topology", "a plan names butterfly, allgather or ring, got auto");
}

}  // namespace shoal::outer_opt
