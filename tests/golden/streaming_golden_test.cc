// Fragments, overlap and one failure in numbers that must not change: two replicas of the
// simulator, one of which dies as a round commits and is replaced. What the members put into each
// committed attempt is reduced again by real peers over sockets, and the outer step taken on that:
// the same bits, round for round. The histories themselves, without and with eager updates, are
// compared with streaming.txt and eager.txt; SHOAL_REWRITE_GOLDENS=1 writes them anew.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "outer_opt/core/fragments.h"
#include "outer_opt/transport/peer_node.h"
#include "tests/scenarios/cluster.h"

namespace shoal::sim {
namespace {

constexpr std::int64_t kFrameValues = 8;  // as the simulator's

std::string hex(std::span<const float> values) { return to_hex(digest_of(values)); }

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

struct History {
  std::map<RoundNumber, Attempt> attempts;  // the newest one of each round
  std::map<RoundNumber, Step> steps;
  std::string adoptions;
};

class Recorder final : public Checker {
 public:
  Recorder(const Context& context, History& history) : Checker(context), history_(history) {}
  const char* name() const override { return "recorder"; }

  void contributed(const Contributed& c) override {
    Attempt& attempt = history_.attempts[c.plan.key.round];
    if (attempt.plan.attempt != c.plan.attempt) attempt = {c.plan, {}};
    attempt.inputs[c.replica].assign(c.pseudo_gradient.begin(), c.pseudo_gradient.end());
  }
  void outer_stepped(const OuterStepped& s) override {
    history_.steps.try_emplace(
        s.key.round, Step{s.options, s.fragment, s.number, copy(s.average), copy(s.anchor_before),
                          copy(s.momentum_before), copy(s.anchor), copy(s.momentum)});
  }
  void adopted(const Adopted& a) override {
    history_.adoptions += "round " + std::to_string(a.key.round) + " " + to_string(a.replica) +
                          " adopts at step " + std::to_string(a.at.count()) + " " + hex(a.local) +
                          "\n";
  }

 private:
  static std::vector<float> copy(std::span<const float> values) {
    return {values.begin(), values.end()};
  }
  History& history_;
};

JobSpec streamed_job() {
  JobSpec spec = Cluster::small_job(12);
  spec.model.layers = 2;
  spec.sync.every = Steps(10);
  spec.sync.fragments = 2;
  spec.sync.overlap_steps = Steps(2);
  spec.sync.blend = 0.5;
  spec.sync.codec = CodecKind::kInt8;
  return spec;
}

JobSpec eager_job() {
  JobSpec spec = streamed_job();
  spec.sync.blend = 0;
  spec.sync.eager = true;
  return spec;
}

History simulated(const JobSpec& spec) {
  History history;
  Cluster cluster(2);
  Sim& sim = cluster.world().sim();
  const Checker::Context context{sim.options, sim.queue.now(), sim.violation};
  sim.checkers.push_back(std::make_unique<Recorder>(context, history));
  cluster.submit(spec);
  EXPECT_TRUE(cluster.until_round(4)) << cluster.objection();
  EXPECT_TRUE(cluster.until_somebody_reduces());
  cluster.reducing_trainer()->kill(9);
  EXPECT_TRUE(cluster.until_phase(coordinator::JobPhase::kCompleted)) << cluster.objection();
  return history;
}

// The members of one attempt as real peers; the average of each.
std::vector<std::vector<float>> reduced(const Attempt& attempt) {
  ReducePlan plan = attempt.plan;
  plan.frame_values = kFrameValues;
  std::vector<std::unique_ptr<outer_opt::PeerNode>> nodes;
  for (ReduceMember& member : plan.members) {
    outer_opt::PeerNodeOptions options;
    auto node = outer_opt::PeerNode::start(options);
    nodes.push_back(std::move(node).value());
    member.address = nodes.back()->address();
  }
  std::vector<std::vector<float>> averages(
      nodes.size(), std::vector<float>(static_cast<std::size_t>(plan.value_count)));
  std::vector<std::future<outer_opt::ReduceResult>> running;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    running.push_back(std::async(std::launch::async, [&, i] {
      const ReplicaId self = plan.members[i].replica;
      return nodes[i]->reduce(plan, self, {attempt.inputs.at(self), {}}, averages[i], {});
    }));
  }
  for (auto& one : running) EXPECT_TRUE(one.get().ok);
  return averages;
}

std::string history_text(const History& history) {
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

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_real_peers_give_the_same(const JobSpec& spec) {
  const History history = simulated(spec);
  ASSERT_EQ(history.steps.size(), 12u);
  std::vector<float> anchor = history.steps.at(1).anchor_before;
  std::vector<float> momentum = history.steps.at(1).momentum_before;
  std::size_t alone = 0;
  for (const auto& [round, step] : history.steps) {
    const Attempt& attempt = history.attempts.at(round);
    alone += attempt.plan.members.size() == 1 ? 1 : 0;
    const auto averages = reduced(attempt);
    for (const auto& average : averages) EXPECT_TRUE(same_bits(average, step.average));
    outer_opt::nesterov_step(step.options, step.fragment, averages.front(), momentum, anchor);
    EXPECT_TRUE(same_bits(anchor, step.anchor)) << "round " << round;
    EXPECT_TRUE(same_bits(momentum, step.momentum)) << "round " << round;
  }
  EXPECT_GT(alone, 0u) << "the failure left one member";
}

void expect_written_down(const JobSpec& spec, const std::string& name) {
  const std::string path = std::string(SHOAL_GOLDEN_DIR) + "/" + name + ".txt";
  const std::string now = history_text(simulated(spec));
  if (std::getenv("SHOAL_REWRITE_GOLDENS") != nullptr) std::ofstream(path) << now;
  std::ostringstream written;
  written << std::ifstream(path).rdbuf();
  EXPECT_EQ(now, written.str());
}

TEST(StreamingGolden, RealPeersGiveTheBitsOfTheSimulator) {
  expect_real_peers_give_the_same(streamed_job());
  expect_real_peers_give_the_same(eager_job());
}

TEST(StreamingGolden, HistoriesAreThoseWrittenDown) {
  expect_written_down(streamed_job(), "streaming");
  expect_written_down(eager_job(), "eager");
}

}  // namespace
}  // namespace shoal::sim
