// Replicas of a program must have built the same model, and people are told what differs.
#include "coordinator/core/replicas/program_models.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;

using Tensors = std::vector<TensorShape>;

Tensors model(std::int64_t width = 64, const std::string& type = "F32") {
  return {{"embed.weight", {300, width}, type}, {"head.bias", {300}, type}};
}

// Agents a and b are asked to train a program's model from its seed.
struct Programs : Rig {
  Programs() {
    JobSpec spec = small_job();
    spec.swarm.min_replicas = 2;
    spec.trainer = {TrainerKind::kPython, "train.py"};
    programs.beneath_root = true;
    adopt(spec);
    a = join("a"), b = join("b");
    wait(seconds(3));
  }
  ReplicaId replica(ConnectionId agent) { return last<Assign>(agent)->replica; }
  void tell(ConnectionId agent, const Tensors& tensors) {
    say(agent, LoadProgress{.replica = replica(agent), .tensors = tensors});
  }
  void load_other(ConnectionId agent, std::int64_t values) {
    const Assign assign = *last<Assign>(agent);
    say(agent, Loaded{assign.replica, assign.source.key, {9, 9}, {8, 8}, values, "b:1", {}});
  }
  const ReplicaRecord& record(ConnectionId agent) { return replicas_.at(replica(agent)); }
  bool is_failed(ConnectionId agent) { return record(agent).state == ReplicaState::kFailed; }

  ConnectionId a, b;
};

TEST(ProgramModels, TheSameModelIsTrained) {
  Programs rig;
  rig.tell(rig.a, model());
  rig.tell(rig.b, model());
  rig.load(rig.a);
  rig.load(rig.b);
  EXPECT_FALSE(rig.is_failed(rig.a) || rig.is_failed(rig.b));
}

TEST(ProgramModels, ParametersThatDifferAreNamedBeforeAnythingIsLoaded) {
  Programs rig;
  rig.tell(rig.a, model());
  rig.tell(rig.b, model(32));
  EXPECT_FALSE(rig.is_failed(rig.a));
  ASSERT_TRUE(rig.is_failed(rig.b));
  EXPECT_EQ(rig.record(rig.b).failure, ReplicaFailure::kDigestMismatch);
  EXPECT_THAT(rig.record(rig.b).detail,
              testing::AllOf(HasSubstr("another one than on a"),
                             HasSubstr("embed.weight has shape [300, 32] here and [300, 64] there"),
                             HasSubstr("build it from the job and the code alone")));
}

// As many values: they would be written into it one by one, into other places.
TEST(ProgramModels, TheFirstOneThatLoadedIsTheMeasure) {
  Programs rig;
  rig.tell(rig.a, model());
  rig.load(rig.a);
  rig.tell(rig.b, {model()[1], model()[0]});
  EXPECT_FALSE(rig.is_failed(rig.a));
  ASSERT_TRUE(rig.is_failed(rig.b));
  EXPECT_THAT(rig.record(rig.b).detail,
              HasSubstr("parameter 0 is head.bias here and embed.weight there"));
}

// After a start of the coordinator, say: nobody knows what those that train are made of.
TEST(ProgramModels, WithoutTheListOfOneThatLoadedNobodyIsMeasuredByOneThatLoads) {
  Programs rig;
  rig.load(rig.a);
  rig.tell(rig.b, model(32));
  EXPECT_FALSE(rig.is_failed(rig.b));
}

TEST(ProgramModels, TypesMayDifferAndAreToldWhereTheValuesDo) {
  Programs rig;
  rig.tell(rig.a, model());
  rig.tell(rig.b, model(64, "BF16"));
  EXPECT_FALSE(rig.is_failed(rig.b));
  rig.load(rig.a);
  rig.load_other(rig.b, 1000);
  ASSERT_TRUE(rig.is_failed(rig.b));
  EXPECT_THAT(rig.record(rig.b).detail, HasSubstr("embed.weight is BF16 here and F32 there"));
}

TEST(ProgramModels, WithoutAListTheSizesOrTheSeedAreTold) {
  for (const std::int64_t values : {900, 1000}) {
    Programs rig;
    rig.load(rig.a);
    rig.load_other(rig.b, values);
    EXPECT_EQ(rig.record(rig.b).failure, ReplicaFailure::kDigestMismatch);
    EXPECT_THAT(rig.record(rig.b).detail,
                HasSubstr(values == 900 ? "has 900 trained values on this host, and 1000 where"
                                        : "seed every generator"));
  }
}

}  // namespace
}  // namespace shoal::coordinator
