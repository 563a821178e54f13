// The history of streaming_history.h once more, with the vectors of every replica on a device: the
// pseudo-gradient of a fragment taken there, averaged, stepped and adopted, round after round, on
// what the rounds before left there. How frames travel is the caller's.
#pragma once

#include <functional>

#include <gtest/gtest.h>

#include "outer_opt/core/step/nesterov.h"
#include "outer_opt/cuda/device_vectors.h"
#include "tests/golden/streaming_history.h"

namespace shoal::sim::golden {

using DevicesOfMembers = std::vector<std::shared_ptr<outer_opt::DeviceVectors>>;  // as in the plan

// One attempt; members without a weight receive only.
using ReduceOn = std::function<void(const ReducePlan& plan, const DevicesOfMembers& devices)>;

class DeviceReplay {
 public:
  DeviceReplay(outer_opt::Accelerator& device, const History& history, std::size_t values)
      : device_(device), history_(history), ferry_(std::move(*outer_opt::Ferry::create(device))) {
    local_ = std::move(
        *outer_opt::DeviceMemory<float>::allocate(device, outer_opt::MemoryKind::kDevice, values));
  }

  void take_round(RoundNumber round, const Step& step, const ReduceOn& reduce) {
    const Attempt& attempt = history_.attempts.at(round);
    DevicesOfMembers devices;
    for (const ReduceMember& member : attempt.plan.members) {
      devices.push_back(vectors_of(member.replica, step));
      if (member.weight == 0) continue;
      take_pseudo_gradient(*devices.back(), round, member.replica, step.fragment);
      ++contributions_;
    }
    ReducePlan plan = attempt.plan;
    plan.frame_values = kFrameValues;
    reduce(plan, devices);
    for (const auto& device : devices) expect_step(*device, round, step);
    const auto [first, last] = history_.adopted.equal_range(round);
    for (auto it = first; it != last; ++it) expect_adoption(it->second, step.fragment);
  }
  int contributions() const { return contributions_; }

 private:
  // One that was not there before loads what the others have, as a joiner does.
  std::shared_ptr<outer_opt::DeviceVectors> vectors_of(ReplicaId replica, const Step& step) {
    auto& vectors = vectors_[replica];
    if (vectors) return vectors;
    vectors = std::move(*outer_opt::DeviceVectors::create(
        device_, static_cast<std::int64_t>(step.anchor.size()), 1));
    EXPECT_TRUE(vectors->load(step.anchor_before, {{"momentum", step.momentum_before}}));
    return vectors;
  }

  void take_pseudo_gradient(outer_opt::DeviceVectors& vectors, RoundNumber round, ReplicaId replica,
                            const outer_opt::Fragment& fragment) {
    EXPECT_TRUE(ferry_->upload(history_.boundaries.at({round, replica}).local, local_.data()));
    EXPECT_TRUE(vectors.take_pseudo_gradient(local_.data(), fragment).ok());
    std::vector<float> taken(static_cast<std::size_t>(outer_opt::value_count(fragment)));
    EXPECT_TRUE(vectors.read_pseudo_gradient(taken));
    EXPECT_TRUE(same_bits(taken, history_.attempts.at(round).inputs.at(replica)))
        << "round " << round << ", " << to_string(replica);
  }

  static void expect_step(outer_opt::DeviceVectors& vectors, RoundNumber round, const Step& step) {
    std::vector<float> anchor = step.anchor_before;
    NamedVectors state{{"momentum", step.momentum_before}};
    const outer_opt::Nesterov optimizer(step.options);
    const outer_opt::StepTerms terms{.round = round, .outer_lr = step.options.lr};
    EXPECT_TRUE(vectors.step(optimizer, terms, step.fragment, state, anchor));
    EXPECT_TRUE(same_bits(anchor, step.anchor)) << "round " << round;
    EXPECT_TRUE(same_bits(state[0].values, step.momentum)) << "round " << round;
  }

  void expect_adoption(const Adoption& adoption, const outer_opt::Fragment& fragment) {
    EXPECT_TRUE(ferry_->upload(adoption.local_before, local_.data()));
    EXPECT_TRUE(vectors_.at(adoption.replica)->adopt(fragment, adoption.blend, local_.data()));
    std::vector<float> local(adoption.local.size());
    EXPECT_TRUE(ferry_->download(local_.data(), local));
    EXPECT_TRUE(same_bits(local, adoption.local)) << to_string(adoption.replica);
  }

  outer_opt::Accelerator& device_;
  const History& history_;
  std::unique_ptr<outer_opt::Ferry> ferry_;
  outer_opt::DeviceMemory<float> local_;
  std::map<ReplicaId, std::shared_ptr<outer_opt::DeviceVectors>> vectors_;
  int contributions_ = 0;
};

inline void expect_history_on(outer_opt::Accelerator& device, const History& history,
                              const ReduceOn& reduce) {
  ASSERT_EQ(history.steps.size(), 12u);
  EXPECT_GT(history.adopted.size(), 12u);
  DeviceReplay replay(device, history, history.steps.at(1).anchor.size());
  for (const auto& [round, step] : history.steps) replay.take_round(round, step, reduce);
  EXPECT_GE(replay.contributions(), 20)
      << "of two replicas in twelve rounds, one of them lost once";
}

}  // namespace shoal::sim::golden
