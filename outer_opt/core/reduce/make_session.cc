#include "outer_opt/core/reduce/make_session.h"

#include "base/check.h"
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

Result<std::unique_ptr<ReduceSession>> make_with_frames(const ReducePlan& plan, ReplicaId self,
                                                        std::int64_t frame_values,
                                                        const ReduceInput& input,
                                                        AverageRoom average) {
  const Status fits = ButterflySession::check(plan, self, frame_values, input,
                                              static_cast<std::size_t>(plan.value_count));
  if (!fits.ok()) return fits.error();
  SHOAL_CHECK(AverageFrames(plan, frame_values).bytes() == average.frames.size());
  return std::unique_ptr<ReduceSession>(
      std::make_unique<ButterflySession>(plan, self, frame_values, input, average));
}

}  // namespace

Result<std::unique_ptr<ReduceSession>> make_session(const ReducePlan& plan, ReplicaId self,
                                                    std::int64_t frame_values,
                                                    const ReduceInput& input, AverageRoom average) {
  if (plan.owner_step && plan.topology != Topology::kButterfly) {
    return refused_plan("topology", std::string("must be butterfly with an owner step, got ") +
                                        to_string(plan.topology));
  }
  if (average.keeps_frames()) return make_with_frames(plan, self, frame_values, input, average);
  switch (plan.topology) {
    case Topology::kButterfly:
    case Topology::kParamServer:
      return make<ButterflySession>(plan, self, frame_values, input, average.values);
    case Topology::kAllgather:
      return make<AllgatherSession>(plan, self, frame_values, input, average.values);
    case Topology::kRing:
      return make<RingSession>(plan, self, frame_values, input, average.values);
    case Topology::kMoshpit:
    case Topology::kGossip:
    case Topology::kAuto:
      break;
  }
  return refused_plan("topology", "a plan names butterfly, allgather or ring, got auto");
}

}  // namespace shoal::outer_opt
