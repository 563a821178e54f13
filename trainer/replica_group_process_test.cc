// A replica group of real processes: it trains as one trainer does, and continues when one of them
// is killed. With a GPU and NCCL the processes add their gradients on it; to NCCL each is a host of
// its own (NCCL_HOSTID), because it refuses two ranks of a host on one device.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "job/job_rules.h"
#include "trainer/model/group_leader.h"
#include "trainer/model/learner.h"
#include "trainer/plain/parameter_layout.h"
#if SHOAL_HAVE_NCCL
#include "swarm/cuda/nccl_library.h"
#endif

namespace shoal::trainer {
namespace {

constexpr std::int64_t kBatch = 8;

// The program of the build, unless the environment names one.
const char* trainer_program() {
  const char* named = std::getenv("SHOAL_TRAINER_PROGRAM");
  return named != nullptr ? named : SHOAL_TRAINER_PROGRAM;
}

JobSpec spec_of() {
  const auto path =
      std::filesystem::path(testing::TempDir()) / "shoal_replica_group_process_test.txt";
  std::ofstream out(path);
  for (int i = 0; i < 400; ++i) out << "the quick brown fox jumps over the lazy dog " << i * i;
  JobSpec spec = default_spec(SyncAlgorithm::kDiloco);
  spec.name = "test";
  spec.model = {ModelFamily::kGpt2, 2, 32, 2, 0, 0, 16, 256};
  spec.data.train = path.string();
  spec.train.batch = kBatch;
  spec.train.microbatch = 2;
  return with_derived_fields(spec);
}

struct Trainee {
  Trainee(const JobSpec& spec, const DeviceChoice& device) {
    EXPECT_FALSE(StageModel::create(spec, whole_model(spec.model), device, model).has_value());
    model->seed();
  }
  void learn(const JobSpec& spec, GroupLeader* replica_group) {
    learner = std::make_unique<Learner>(
        *model, std::move(*Dataset::open(spec, data::DataRoots::whole_host())), replica_group);
  }
  StepResult step(std::int64_t step) {
    StepResult result;
    EXPECT_FALSE(learner->train_step(Steps(step), step * kBatch, result).has_value());
    return result;
  }
  std::unique_ptr<StageModel> model;
  std::unique_ptr<Learner> learner;
};

struct Members {
  explicit Members(const std::vector<std::vector<std::string>>& environments) {
    for (std::vector<std::string> environment : environments) {
      environment.push_back("SHOAL_DATA_ROOTS=/");
      auto member = start_group_member(trainer_program(), environment);
      EXPECT_TRUE(member.ok()) << to_string(member.error());
      processes.push_back(member->process);
      all.push_back(std::move(*member));
    }
  }
  std::vector<GroupMember> all;
  std::vector<int> processes;
};

// A leader and two members beside a trainer alone; one member is killed on the way. Returns
// where the gradients were added.
swarm::GroupSum expect_to_train_as_one(const DeviceChoice& device, Members members,
                                       std::unique_ptr<swarm::DeviceGroup> group) {
  const JobSpec spec = spec_of();
  Trainee together(spec, device), alone(spec, device);
  GroupLeader replica_group(*together.model, std::move(members.all), std::move(group));
  together.learn(spec, &replica_group);
  alone.learn(spec, nullptr);
  std::int64_t step = 0;
  const auto both_step = [&] {
    const StepResult a = together.step(step), b = alone.step(step);
    EXPECT_NEAR(a.loss, b.loss, 1e-3) << "step " << step;
    EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-2);
    ++step;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (replica_group.replica_group().members().size() < 3 &&
         std::chrono::steady_clock::now() < end)
    both_step();
  EXPECT_EQ(replica_group.replica_group().members().size(), 3u) << "they load within a minute";
  for (int i = 0; i < 5; ++i) both_step();
  const swarm::GroupSum sum = replica_group.replica_group().sum();
  kill(members.processes[0], SIGKILL);
  for (int i = 0; i < 5; ++i) both_step();
  EXPECT_EQ(replica_group.replica_group().members(), (std::vector<int>{0, 2}));
  EXPECT_EQ(replica_group.replica_group().sum(), sum);
  return sum;
}

TEST(ReplicaGroupProcesses, TrainAsOneAndOutliveTheDeathOfAMember) {
  const std::vector<std::string> one_thread{"SHOAL_TRAINER_THREADS=1"};
  EXPECT_EQ(expect_to_train_as_one({}, Members({one_thread, one_thread}), nullptr),
            swarm::GroupSum::kLeader);
}

#if SHOAL_HAVE_NCCL
TEST(ReplicaGroupProcesses, AddTheirGradientsOnAGpu) {
  const DeviceChoice device{DeviceKind::kCuda, 0, 1, 1};
  if (const Status there = prepare_device(device); !there) GTEST_SKIP() << there.error().message;
  setenv("NCCL_HOSTID", "leader", 1);
  const auto environment = [](const char* host) {
    return std::vector<std::string>{"SHOAL_TRAINER_KIND=cuda", std::string("NCCL_HOSTID=") + host};
  };
  auto library = swarm::make_nccl_library(0);
  ASSERT_TRUE(library.ok()) << to_string(library.error());
  Members members({environment("first"), environment("second")});
  const swarm::GroupSum sum = expect_to_train_as_one(
      device, std::move(members), std::make_unique<swarm::DeviceGroup>(std::move(*library)));
  if (sum != swarm::GroupSum::kDevices) GTEST_SKIP() << "NCCL makes no communicator on one device";
}
#endif

TEST(ReplicaGroupProcesses, AProgramThatIsNotThereIsNamed) {
  EXPECT_FALSE(start_group_member("/nowhere/shoal-trainer", {}).ok());
}

}  // namespace
}  // namespace shoal::trainer
