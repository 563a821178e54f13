#include "job/group_rules.h"

namespace shoal {
namespace {

// outer_opt/core/round/groups_test.cc shows why.
constexpr double kMaxPairsMomentum = 0.5, kMaxGridMomentum = 0.9;

}  // namespace

void check_groups(const JobSpec& spec, FieldChecker& checker) {
  const SyncSpec& sync = spec.sync;
  const bool pairs = sync.topology == Topology::kGossip;
  if (!pairs && sync.topology != Topology::kMoshpit) return;
  const std::string in_groups = " with sync.topology = " + quoted(to_string(sync.topology));
  const auto need = [&](bool good, const char* field, const std::string& accepted,
                        const std::string& given) {
    if (!good) checker.refuse(field, "must be " + accepted + in_groups + ", got " + given);
  };
  const bool averages =
      sync.algorithm == SyncAlgorithm::kDiloco || sync.algorithm == SyncAlgorithm::kLocalSgd;
  need(averages, "/sync/algorithm", "'diloco' or 'local_sgd'", quoted(to_string(sync.algorithm)));
  need(sync.every_s == 0, "/sync/every", "a number of inner steps", "a time");
  need(sync.balance == Balance::kEqual, "/sync/balance", "'equal'", "'speed'");
  need(sync.codec == CodecKind::kFp32, "/sync/codec",
       "'fp32' (members exchange parameters, of which only small differences matter)",
       quoted(to_string(sync.codec)));
  need(sync.aggregator == Aggregator::kMean, "/sync/aggregator", "'mean'",
       quoted(to_string(sync.aggregator)));
  need(sync.fragments == 1, "/sync/fragments", "1", text_of(sync.fragments));
  need(sync.overlap_steps == Steps(0), "/sync/overlap_steps", "0",
       text_of(sync.overlap_steps.count()));
  need(sync.outer_state == OuterState::kReplicated, "/sync/outer_state", "'replicated'",
       quoted(to_string(sync.outer_state)));
  need(spec.swarm.stages == 1, "/swarm/stages", "1",
       spec.swarm.stages == 0 ? quoted("auto") : text_of(spec.swarm.stages));
  const double most = pairs ? kMaxPairsMomentum : kMaxGridMomentum;
  need(sync.outer.momentum <= most, "/sync/outer/momentum",
       "at most " + text_of(most) + " (with more replicas drift apart)",
       text_of(sync.outer.momentum));
}

}  // namespace shoal
