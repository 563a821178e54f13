// The history of streaming.txt: fragments, overlap and one failure. Two replicas of the simulator,
// one of which dies as a round commits and is replaced. It records what they hold at every
// boundary, contribute to every committed attempt and compute from its result, so that others can
// repeat it: real peers over sockets, and devices.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "job/sync_spec_test_util.h"
#include "outer_opt/core/step/fragments.h"
#include "tests/scenarios/cluster.h"

namespace shoal::sim::golden {

inline constexpr std::int64_t kFrameValues = 8;  // as the simulator's

inline std::string hex(std::span<const float> values) { return to_hex(digest_of(values)); }

inline std::vector<float> copy(std::span<const float> values) {
  return {values.begin(), values.end()};
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct Boundary {  // what a pseudo-gradient is taken from
  std::vector<float> anchor, local;
};

struct Attempt {
  ReducePlan plan;
  std::map<ReplicaId, std::vector<float>> inputs;
};

struct Step {  // the first replica's outer step of a round; all others are compared by a checker
  OuterSpec options;
  outer_opt::Fragment fragment;
  std::int32_t number = 0;
  std::vector<float> average, anchor_before, momentum_before, anchor, momentum;
};

struct Adoption {
  ReplicaId replica;
  double blend = 0;
  std::vector<float> local_before, local;
};

struct History {
  std::map<std::pair<RoundNumber, ReplicaId>, Boundary> boundaries;  // the newest of each round
  std::map<RoundNumber, Attempt> attempts;                           // likewise
  std::map<RoundNumber, Step> steps;
  std::multimap<RoundNumber, Adoption> adopted;
  std::string adoptions;  // as text
};

class Recorder final : public Checker {
 public:
  Recorder(const Context& context, History& history) : Checker(context), history_(history) {}
  const char* name() const override { return "recorder"; }

  void reported(const Reported& r) override {
    history_.boundaries[{r.report.key.round, r.replica}] = {copy(r.anchor), copy(r.local)};
  }
  void contributed(const Contributed& c) override {
    Attempt& attempt = history_.attempts[c.plan.key.round];
    if (attempt.plan.attempt != c.plan.attempt) attempt = {c.plan, {}};
    attempt.inputs[c.replica] = copy(c.pseudo_gradient);
  }
  void outer_stepped(const OuterStepped& s) override {
    history_.steps.try_emplace(s.commit.key.round,
                               Step{{s.commit.outer_lr, s.spec.sync.outer.momentum},
                                    s.fragment,
                                    s.number,
                                    copy(s.average),
                                    s.before.anchor,
                                    vector_of(s.before.vectors, kMomentum[0]),
                                    s.after.anchor,
                                    vector_of(s.after.vectors, kMomentum[0])});
  }
  void adopted(const Adopted& a) override {
    history_.adopted.emplace(
        a.key.round, Adoption{a.replica, a.spec.sync.blend, copy(a.local_before), copy(a.local)});
    history_.adoptions += "round " + std::to_string(a.key.round) + " " + to_string(a.replica) +
                          " adopts at step " + std::to_string(a.at.count()) + " " + hex(a.local) +
                          "\n";
  }

 private:
  History& history_;
};

inline JobSpec streamed_job() {
  JobSpec spec = Cluster::small_job(12);
  spec.model.layers = 2;
  change_sync(spec, [](SyncSpec& sync) {
    sync.every = Steps(10);
    sync.fragments = 2;
    sync.outer = {0.7, 0.9};  // of the histories that are written down
    sync.overlap_steps = Steps(2);
    sync.blend = 0.5;
    sync.codec = CodecKind::kInt8;
  });
  return spec;
}

inline JobSpec eager_job() {
  JobSpec spec = streamed_job();
  change_sync(spec, [](SyncSpec& sync) {
    sync.blend = 0;
    sync.eager = true;
  });
  return spec;
}

inline History simulated(const JobSpec& spec) {
  History history;
  Cluster cluster(2);
  Sim& sim = cluster.world().sim();
  const Checker::Context context{sim.options, sim.queue.now(), sim.broken, sim.tainted, sim.census};
  sim.checkers.push_back(std::make_unique<Recorder>(context, history));
  cluster.submit(spec);
  EXPECT_TRUE(cluster.until_round(4)) << cluster.objection();
  EXPECT_TRUE(cluster.until_somebody_reduces());
  cluster.reducing_trainer()->kill(9);
  EXPECT_TRUE(cluster.until_phase(coordinator::JobPhase::kCompleted)) << cluster.objection();
  return history;
}

inline std::string history_text(const History& history) {
  std::string text;
  for (const auto& [round, step] : history.steps) {
    const Attempt& attempt = history.attempts.at(round);
    text += "round " + std::to_string(round) + " attempt " + std::to_string(attempt.plan.attempt) +
            " members " + std::to_string(attempt.plan.members.size()) + " fragment " +
            std::to_string(step.number) + " average " + hex(step.average) + " anchor " +
            hex(step.anchor) + " momentum " + hex(step.momentum) + "\n";
  }
  return text + history.adoptions;
}

}  // namespace shoal::sim::golden
