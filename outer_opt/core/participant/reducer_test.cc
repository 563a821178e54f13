#include "outer_opt/core/participant/reducer.h"

#include <set>

#include <gtest/gtest.h>

namespace shoal::outer_opt {
namespace {

constexpr ReplicaId kSelf{7};

ReducePlan plan_of(RoundNumber round, std::int32_t attempt, bool reducer = true) {
  ReducePlan plan;
  plan.key = {JobId(1), 0, round};
  plan.attempt = attempt;
  plan.topology = Topology::kParamServer;
  plan.members.push_back({ReplicaId(1), "a:1", 1, 1, 0, 0, false});
  plan.members.push_back({kSelf, "b:1", 0, 1, 0, 4, reducer});
  return plan;
}

// "start 1", "stop 1", "vote 1", "failed 1"
std::vector<std::string> words(const Actions& actions) {
  std::vector<std::string> all;
  for (const Action& action : actions) {
    if (const auto* a = std::get_if<StartReduce>(&action)) {
      EXPECT_FALSE(a->contributes);
      all.push_back("start " + std::to_string(a->plan.attempt));
    } else if (const auto* stop = std::get_if<StopReduce>(&action)) {
      all.push_back("stop " + std::to_string(stop->attempt));
    } else if (const auto* say = std::get_if<Say>(&action)) {
      const auto* vote = std::get_if<Vote>(&say->message);
      EXPECT_TRUE(vote == nullptr || vote->average == Digest());
      all.push_back(vote != nullptr ? "vote " + std::to_string(vote->attempt) : "failed");
    }
  }
  return all;
}

using Words = std::vector<std::string>;

TEST(Reducer, AnswersAPlanAndSaysSoAgain) {
  Reducer reducer(kSelf);
  Actions out;
  reducer.reduce(plan_of(3, 1), out);
  reducer.reduced(plan_of(3, 1).key, 1, {}, {}, out);
  reducer.reduce(plan_of(3, 1), out);
  EXPECT_EQ(words(out), (Words{"start 1", "vote 1", "vote 1"}));
}

TEST(Reducer, SaysWhomItsPartIsWithout) {
  Reducer reducer(kSelf);
  Actions out;
  reducer.reduce(plan_of(3, 1), out);
  reducer.reduced(plan_of(3, 1).key, 1, {}, {{ReplicaId(1)}, {}, {}}, out);
  EXPECT_EQ(std::get<Vote>(std::get<Say>(out.back()).message).seen.excluded,
            std::vector{ReplicaId(1)});
}

TEST(Reducer, ALaterPlanReplacesTheRunningOne) {
  Reducer reducer(kSelf);
  Actions out;
  reducer.reduce(plan_of(3, 1), out);
  reducer.reduce(plan_of(3, 2), out);
  reducer.reduced(plan_of(3, 1).key, 1, {}, {}, out);  // too late
  reducer.reduce_failed({plan_of(3, 2).key, 2, {}, ReduceFailure::kPeerLost, ""}, out);
  reducer.reduce(plan_of(9, 1), out);  // it need not have seen the rounds between
  EXPECT_EQ(words(out), (Words{"start 1", "stop 1", "start 2", "failed", "start 1"}));
}

TEST(Reducer, WhatItIsNotWorkingAtIsNoNews) {
  Reducer reducer(kSelf);
  Actions out;
  reducer.reduced(plan_of(3, 1).key, 1, {}, {}, out);  // no plan yet
  EXPECT_TRUE(out.empty());
  reducer.reduce(plan_of(3, 2), out);
  reducer.reduced(plan_of(2, 2).key, 2, {}, {}, out);
  reducer.reduced(plan_of(3, 1).key, 1, {}, {}, out);
  EXPECT_EQ(words(out), (Words{"start 2"}));
  reducer.reduced(plan_of(3, 2).key, 2, {}, {}, out);
  reducer.reduce_failed({plan_of(3, 2).key, 2, {}, ReduceFailure::kPeerLost, ""}, out);
  EXPECT_EQ(words(out), (Words{"start 2", "vote 2"})) << "said already";
  reducer.reduce(plan_of(4, 1), out);
  EXPECT_EQ(words(out), (Words{"start 2", "vote 2", "start 1"})) << "nothing ran any more";
}

TEST(Reducer, TheDigestIsOfPlanAndAnswer) {
  Reducer reducer(kSelf);
  Actions out;
  std::set<Digest> seen{reducer.digest()};
  reducer.reduce(plan_of(3, 1), out);
  EXPECT_TRUE(seen.insert(reducer.digest()).second);
  reducer.reduce(plan_of(3, 2), out);
  EXPECT_TRUE(seen.insert(reducer.digest()).second);
  reducer.reduced(plan_of(3, 2).key, 2, {}, {}, out);
  EXPECT_TRUE(seen.insert(reducer.digest()).second);
}

TEST(Reducer, PlansOfThePastAndOfOthersAreNothing) {
  Reducer reducer(kSelf);
  Actions out;
  reducer.reduce(plan_of(3, 1, false), out);
  EXPECT_TRUE(out.empty());
  reducer.reduce(plan_of(3, 2), out);
  const Digest before = reducer.digest();
  reducer.reduce(plan_of(3, 1), out);
  reducer.reduce(plan_of(2, 9), out);
  EXPECT_EQ(words(out), (Words{"start 2"}));
  EXPECT_EQ(reducer.digest(), before);
}

}  // namespace
}  // namespace shoal::outer_opt
