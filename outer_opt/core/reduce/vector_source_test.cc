// Contributions that are made when they are read: the average is that of the same values in memory.
#include "outer_opt/core/reduce/vector_source.h"

#include <algorithm>

#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/reduce/session_test_util.h"

namespace shoal::outer_opt {
namespace {

constexpr std::int64_t kFrame = 5000;  // more than a run

VectorSource made_of(const std::vector<float>& values) {
  return {values.size(), [&values](std::int64_t first, std::span<float> out) {
            std::copy_n(values.begin() + first, out.size(), out.begin());
          }};
}

void expect_the_same_average(const ReducePlan& plan) {
  const auto inputs = random_inputs(plan, 3);
  SessionSwarm in_memory(plan, kFrame, inputs);
  Prng prng(1);
  in_memory.run(prng);
  expect_all_done_and_equal(in_memory);

  std::vector<std::vector<float>> averages(
      inputs.size(), std::vector<float>(static_cast<std::size_t>(plan.value_count)));
  const auto make = [&](std::size_t i, const ReducePlan& p) -> SessionSwarm::Made {
    ReduceInput input;
    if (p.members[i].weight > 0) input.pseudo_gradient = made_of(inputs[i]);
    return make_session(p, p.members[i].replica, kFrame, input, averages[i]);
  };
  SessionSwarm made(plan, kFrame, inputs, {}, make);
  made.run(prng);
  for (std::size_t i = 0; i < averages.size(); ++i) {
    ASSERT_EQ(made.sessions[i]->state(), SessionState::kDone) << "member " << i;
    EXPECT_EQ(averages[i], in_memory.averages[i]);
    EXPECT_EQ(made.sessions[i]->digest(), in_memory.sessions[i]->digest());
  }
}

TEST(VectorSource, GivesAButterflyWhatMemoryGives) {
  for (const CodecKind kind : kDenseCodecs) {
    expect_the_same_average(make_plan(kind, 20'003, {1, 2, 0, 4}));
    ReducePlan robust = make_plan(kind, 20'003, {1, 1, 1});
    robust.aggregator = Aggregator::kTrimmedMean;
    robust.codes_own = true;
    expect_the_same_average(robust);
  }
}

TEST(VectorSource, GivesARingWhatMemoryGives) {
  for (const CodecKind kind : kDenseCodecs) {
    ReducePlan plan = make_plan(kind, 20'003, {1, 2, 3});
    plan.topology = Topology::kRing;
    expect_the_same_average(plan);
  }
}

TEST(VectorSource, ARunLiesWhereTheValuesDo) {
  const std::vector<float> values = {1, 2, 3};
  std::vector<float> scratch(2);
  EXPECT_EQ(VectorSource(values).run(1, scratch).data(), values.data() + 1);
  EXPECT_EQ(made_of(values).run(1, scratch).data(), scratch.data());
  EXPECT_EQ(scratch, (std::vector<float>{2, 3}));
  EXPECT_TRUE(made_of(values).in_place().empty());
  EXPECT_EQ(made_of(values).size(), 3u);
}

}  // namespace
}  // namespace shoal::outer_opt
