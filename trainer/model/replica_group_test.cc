// Replica groups whose members are threads of this process: the same training as one trainer with
// the same batch, and what happens when members are lost at any moment; with gradients that the
// leader adds, and with such that the devices add (the host in their place,
// swarm/cuda/communicator_test_util.h).
#include <chrono>
#include <cmath>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "proto/job_spec_text.h"
#include "swarm/cuda/communicator_test_util.h"
#include "trainer/model/group_leader.h"
#include "trainer/model/group_member.h"
#include "trainer/model/learner.h"
#include "trainer/model/tiny_job_test_util.h"
#include "trainer/plain/parameter_layout.h"

namespace shoal::trainer {
namespace {

constexpr std::int64_t kBatch = 6;

JobSpec spec_of(SyncAlgorithm algorithm = SyncAlgorithm::kDiloco) {
  return tiny_job(algorithm, kBatch, Steps(100));
}

using swarm::GroupSum;
using swarm::HostMoment;

// What happens when a rank comes to this moment for the n-th time, from 1; 0: nothing.
struct Strike {
  int rank = 0;
  HostMoment at = HostMoment::kBegin;
  int time = 0;
  bool dies = false;  // else its library fails
};

// A thread that obeys as a process would. kill(): as when the process is killed.
class Member {
 public:
  // `meeting`: where the devices add; null: the leader does.
  Member(swarm::HostMeeting* meeting, const Strike& strike) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    leaders_end_ = ends[0];
    own_end_ = ends[1];
    thread_ = std::jthread([this, meeting, strike] { run(meeting, strike); });
  }
  GroupMember leaders() {
    GroupMember member;
    member.socket = std::make_unique<GroupSocket>(leaders_end_);
    return member;
  }
  void kill() { shutdown(own_end_, SHUT_RDWR); }

 private:
  void run(swarm::HostMeeting* meeting, const Strike& strike) {
    std::unique_ptr<swarm::DeviceGroup> group;
    if (meeting != nullptr) {
      const auto hook = [this, strike, times = 0](HostMoment now) mutable {
        if (now != strike.at || strike.time == 0 || ++times < strike.time) return false;
        if (strike.dies) kill();
        return strike.dies || times == strike.time;  // the dead do nothing any more
      };
      group = std::make_unique<swarm::DeviceGroup>(
          std::make_unique<swarm::HostLibrary>(*meeting, hook));
    }
    GroupSocket leader(own_end_);
    const Status end = run_group_member(leader, {}, data::DataRoots::whole_host(), group.get());
    EXPECT_EQ(end.error().code, Code::kUnavailable) << to_string(end.error());
  }

  int leaders_end_ = -1, own_end_ = -1;
  std::jthread thread_;  // last: it uses the others
};

// A trainer with so many members; none: alone.
class Trainee {
 public:
  explicit Trainee(const JobSpec& spec, int members = 0, GroupSum sum = GroupSum::kLeader,
                   const Strike& strike = {}) {
    auto data = Dataset::open(spec, data::DataRoots::whole_host());
    EXPECT_TRUE(data.ok());
    EXPECT_FALSE(StageModel::create(spec, whole_model(spec.model), {}, model_).has_value());
    model_->seed();
    std::vector<GroupMember> of_leader;
    swarm::HostMeeting* const meeting = sum == GroupSum::kDevices ? &meeting_ : nullptr;
    for (int rank = 1; rank <= members; ++rank) {
      threads_.push_back(
          std::make_unique<Member>(meeting, rank == strike.rank ? strike : Strike{}));
      of_leader.push_back(threads_.back()->leaders());
    }
    std::unique_ptr<swarm::DeviceGroup> group;
    if (meeting != nullptr) {
      group = std::make_unique<swarm::DeviceGroup>(std::make_unique<swarm::HostLibrary>(*meeting));
    }
    if (members > 0) {
      replica_group_ =
          std::make_unique<GroupLeader>(*model_, std::move(of_leader), std::move(group));
    }
    learner_ = std::make_unique<Learner>(*model_, std::move(*data), replica_group_.get());
  }
  ~Trainee() { replica_group_.reset(); }  // ends the threads

  StepResult step(std::int64_t step) {
    StepResult result;
    EXPECT_FALSE(learner_->train_step(Steps(step), step * kBatch, result).has_value());
    return result;
  }
  // Until all members take part.
  std::int64_t step_until_all_are_in(std::int64_t from) {
    for (; from < 1000 && replica_group_->replica_group().members().size() <= threads_.size();
         ++from)
      step(from);
    EXPECT_EQ(replica_group_->replica_group().members().size(), threads_.size() + 1);
    return from;
  }
  std::vector<float> parameters() const {
    std::vector<float> values(static_cast<std::size_t>(model_->value_count()));
    model_->read_parameters(values);
    return values;
  }
  void overwrite(const std::vector<float>& values) { model_->write_parameters(values); }
  Member& member(std::size_t i) { return *threads_[i]; }
  const swarm::ReplicaGroup& replica_group() const { return replica_group_->replica_group(); }

 private:
  swarm::HostMeeting meeting_;
  std::vector<std::unique_ptr<Member>> threads_;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<GroupLeader> replica_group_;
  std::unique_ptr<Learner> learner_;
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max<double>(largest, std::fabs(a[i] - b[i]));
  }
  return largest;
}

// As many more steps of both, from the same parameters.
void expect_the_same_training(Trainee& replica_group, Trainee& alone, std::int64_t from,
                              int steps) {
  for (std::int64_t step = from; step < from + steps; ++step) {
    const StepResult together = replica_group.step(step), single = alone.step(step);
    EXPECT_NEAR(together.loss, single.loss, 1e-4) << "step " << step;
    EXPECT_NEAR(together.gradient_norm, single.gradient_norm, 1e-3);
  }
  EXPECT_LT(largest_difference(replica_group.parameters(), alone.parameters()), 1e-4);
}

class ReplicaGroupTraining : public testing::TestWithParam<GroupSum> {};

TEST_P(ReplicaGroupTraining, IsTheTrainingOfOneTrainerWithTheSameBatch) {
  Trainee replica_group(spec_of(), 3, GetParam()), alone(spec_of());
  const std::int64_t from = replica_group.step_until_all_are_in(0);
  for (std::int64_t step = 0; step < from; ++step) alone.step(step);
  expect_the_same_training(replica_group, alone, from, 10);
}

TEST_P(ReplicaGroupTraining, WhatACommitWritesReachesTheMembers) {
  Trainee replica_group(spec_of(), 2, GetParam()), alone(spec_of());
  const std::int64_t from = replica_group.step_until_all_are_in(0);
  for (std::int64_t step = 0; step < from; ++step) alone.step(step);
  std::vector<float> other = alone.parameters();
  for (float& value : other) value *= 0.9f;
  replica_group.overwrite(other);
  alone.overwrite(other);
  expect_the_same_training(replica_group, alone, from, 5);
}

TEST_P(ReplicaGroupTraining, GradientsThatAreKeptAreThoseOfTheWholeBatch) {
  Trainee replica_group(spec_of(SyncAlgorithm::kDdp), 2, GetParam()),
      alone(spec_of(SyncAlgorithm::kDdp));
  const std::int64_t from = replica_group.step_until_all_are_in(0);
  const StepResult together = replica_group.step(from), single = alone.step(from);
  EXPECT_NEAR(together.loss, single.loss, 1e-5);
  EXPECT_NEAR(together.gradient_norm, single.gradient_norm, 1e-5);
}

TEST_P(ReplicaGroupTraining, GoesOnWithoutThoseWhoAreLost) {
  Trainee replica_group(spec_of(), 2, GetParam()), alone(spec_of());
  const std::int64_t from = replica_group.step_until_all_are_in(0);
  for (std::int64_t step = 0; step < from; ++step) alone.step(step);
  expect_the_same_training(replica_group, alone, from, 2);
  replica_group.member(0).kill();
  expect_the_same_training(replica_group, alone, from + 2, 3);
  EXPECT_EQ(replica_group.replica_group().members(), (std::vector<int>{0, 2}));
  replica_group.member(1).kill();
  expect_the_same_training(replica_group, alone, from + 5, 3);
  EXPECT_EQ(replica_group.replica_group().members(), std::vector<int>{0});
}

// Somewhere in the midst of a step, wherever the threads happen to be.
TEST_P(ReplicaGroupTraining, AMemberThatDiesInTheMidstOfAStepCostsNothing) {
  Trainee replica_group(spec_of(), 3, GetParam()), alone(spec_of());
  const std::int64_t from = replica_group.step_until_all_are_in(0);
  for (std::int64_t step = 0; step < from; ++step) alone.step(step);
  std::jthread killer([&] {
    for (std::size_t i = 0; i < 3; ++i) {
      std::this_thread::yield();
      replica_group.member(i).kill();
    }
  });
  expect_the_same_training(replica_group, alone, from, 10);
}

INSTANTIATE_TEST_SUITE_P(As, ReplicaGroupTraining,
                         testing::Values(GroupSum::kLeader, GroupSum::kDevices),
                         [](const auto& info) {
                           return info.param == GroupSum::kLeader ? "TheLeaderAdds"
                                                                  : "TheDevicesAdd";
                         });

TEST(ReplicaGroupOnDevices, HasTheBitsOfTheSumsOfTheLeader) {
  Trainee devices(spec_of(), 2, GroupSum::kDevices), leader(spec_of(), 2);
  std::int64_t step = 0;
  for (;
       devices.replica_group().members().size() < 3 || leader.replica_group().members().size() < 3;
       ++step) {
    ASSERT_LT(step, 1000);
    devices.step(step), leader.step(step);
  }
  EXPECT_EQ(devices.replica_group().sum(), GroupSum::kDevices);
  EXPECT_EQ(leader.replica_group().sum(), GroupSum::kLeader);
  devices.overwrite(leader.parameters());
  EXPECT_EQ(devices.step(step).gradient_norm, leader.step(step).gradient_norm);
}

// Wherever it is with the communicator: the others abort theirs, take the step without it, and add
// on the devices again.
TEST(ReplicaGroupOnDevices, AMemberThatDiesAtAnyMomentCostsNothing) {
  for (const Strike& strike :
       {Strike{2, HostMoment::kBegin, 1, true}, Strike{2, HostMoment::kWaitForAll, 1, true},
        Strike{2, HostMoment::kBeginAdd, 1, true}, Strike{2, HostMoment::kBeginAdd, 2, true},
        Strike{2, HostMoment::kWaitForSum, 1, true}, Strike{2, HostMoment::kWaitForSum, 3, true}}) {
    Trainee replica_group(spec_of(), 3, GroupSum::kDevices, strike), alone(spec_of());
    std::int64_t step = 0;
    const auto all_known = [&] {
      return replica_group.replica_group().state(2) == swarm::GroupMemberState::kGone &&
             replica_group.replica_group().members().size() == 3;
    };
    for (; !all_known(); ++step) {
      ASSERT_LT(step, 1000);
      replica_group.step(step), alone.step(step);
    }
    expect_the_same_training(replica_group, alone, step, 3);
    EXPECT_EQ(replica_group.replica_group().members(), (std::vector<int>{0, 1, 3}));
    EXPECT_EQ(replica_group.replica_group().sum(), GroupSum::kDevices);
  }
}

// It waits in a communicator that its leader never joins.
TEST(ReplicaGroupOnDevices, AMemberEndsWithItsLeaderAlsoWhileItForms) {
  const auto start = std::chrono::steady_clock::now();
  swarm::HostMeeting meeting;
  {
    Member member(&meeting, {});
    const GroupMember leader = member.leaders();
    const std::string job = proto::spec_to_json(spec_of()).dump();
    ASSERT_TRUE(leader.socket->send({GroupMessageKind::kLoad}, {std::as_bytes(std::span(job))},
                                    seconds(60)));
    const auto joined = leader.socket->receive(seconds(60));
    ASSERT_TRUE(joined.ok());
    EXPECT_EQ(joined->library, swarm::HostLibrary(meeting).version());
    const auto id = swarm::HostLibrary(meeting).make_id();
    const GroupHeader group{GroupMessageKind::kGroup, 1, 0, 1, 2};
    ASSERT_TRUE(leader.socket->send(group, {std::span(*id)}, seconds(60)));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(55));
}

TEST(ReplicaGroupOnDevices, ALibraryThatFailsLeavesTheSumsToTheLeader) {
  for (const auto moment : {HostMoment::kBegin, HostMoment::kWaitForAll, HostMoment::kBeginAdd,
                            HostMoment::kWaitForSum}) {
    Trainee replica_group(spec_of(), 2, GroupSum::kDevices, {2, moment, 1, false}),
        alone(spec_of());
    std::int64_t step = 0;
    for (; replica_group.replica_group().members().size() < 3; ++step) {
      ASSERT_LT(step, 1000);
      replica_group.step(step), alone.step(step);
    }
    expect_the_same_training(replica_group, alone, step, 3);
    EXPECT_EQ(replica_group.replica_group().members().size(), 3u) << "nobody is lost";
  }
}

}  // namespace
}  // namespace shoal::trainer
