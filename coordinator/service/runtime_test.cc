// The driver of the core without a network: commands, durability before answers, events, restarts.
#include "coordinator/service/runtime.h"

#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/service/service_test_util.h"

namespace shoal::coordinator {
namespace {

using ::testing::ElementsAre;

class RuntimeTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(RuntimeTest, AnAcceptedJobIsInTheStoreWhenTheAnswerComes) {
  TestCoordinator coordinator(folder_.path());
  const auto answer = submit_and_wait(coordinator.runtime(), small_job("first"));
  ASSERT_TRUE(answer.result.ok()) << to_string(answer.result.error());
  const auto stored = coordinator.store().reader()->job(*answer.result);
  ASSERT_TRUE(stored.ok() && stored->has_value());
  EXPECT_EQ((*stored)->spec, small_job("first"));
  EXPECT_TRUE(coordinator.runtime().readiness().problems.empty());
  EXPECT_GE(coordinator.runtime().meters()->runtime.inputs.Value(), 2);
}

TEST_F(RuntimeTest, ASecondLiveJobOfTheNameIsRefused) {
  TestCoordinator coordinator(folder_.path());
  ASSERT_TRUE(submit_and_wait(coordinator.runtime(), small_job("twin")).result.ok());
  const auto refused = submit_and_wait(coordinator.runtime(), small_job("twin"));
  ASSERT_FALSE(refused.result.ok());
  EXPECT_EQ(refused.result.error().code, Code::kConflict);
}

TEST_F(RuntimeTest, EventsWakeSubscribersOnceTheyAreDurable) {
  TestCoordinator coordinator(folder_.path());
  std::promise<std::int64_t> woken;
  bool seen = false;
  auto handle = coordinator.runtime().on_events([&](std::int64_t newest) {
    if (std::exchange(seen, true)) return;
    woken.set_value(newest);
  });
  ASSERT_TRUE(submit_and_wait(coordinator.runtime(), small_job("first")).result.ok());
  const std::int64_t newest = woken.get_future().get();
  const auto page = coordinator.store().reader()->events({}, {.limit = 500});
  ASSERT_TRUE(page.ok());
  EXPECT_GE(page->items.back().seq, newest);
  handle.reset();
}

TEST_F(RuntimeTest, ARestartedCoordinatorKnowsTheJobAndCountsTheBoot) {
  JobId id;
  {
    TestCoordinator coordinator(folder_.path());
    id = *submit_and_wait(coordinator.runtime(), small_job("kept")).result;
  }
  TestCoordinator again(folder_.path());
  const auto refused = submit_and_wait(again.runtime(), small_job("kept"));
  EXPECT_FALSE(refused.result.ok());
  EXPECT_EQ(again.runtime().live()->boot_epoch, 2);
  std::promise<Cluster::Answer> promise;
  again.runtime().cancel(id, [&](Cluster::Answer a) { promise.set_value(std::move(a)); });
  EXPECT_TRUE(promise.get_future().get().result.ok());
  EXPECT_EQ((*again.store().reader()->job(id))->desired, JobDesired::kCancel);
}

TEST_F(RuntimeTest, WhatDriversSaidLast_IsShownAfterARestart) {
  AgentRecord agent{.id = AgentId(1), .uid = "uid", .name = "a", .state = AgentState::kActive};
  agent.devices = {{.index = 0, .kind = DeviceKind::kCuda, .uuid = "GPU-a"}};
  DeviceState device{.agent = AgentId(1), .at = from_unix_ms(1'700'000'000'000)};
  device.sample = {.uuid = "GPU-a", .answer = DeviceAnswer::kLost, .error = "GPU is lost"};
  {
    const auto store = std::move(*Store::open(folder_.path()));
    ASSERT_TRUE(write_and_wait(*store, {agent}).ok());
    store->append_devices({{device}, {}});
  }
  TestCoordinator coordinator(folder_.path());
  const auto live = coordinator.runtime().live();
  const auto& samples = live->agents.at(AgentId(1)).samples;
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].answer, DeviceAnswer::kLost);
  EXPECT_EQ(samples[0].error, "GPU is lost");
  EXPECT_EQ(samples[0].age, live->now - device.at);
}

// Killed between the commit of a round and that of its points.
TEST_F(RuntimeTest, TheLastRoundIsInTheSeriesAfterARestart) {
  JobRecord job{.id = JobId(1), .spec = small_job("kept"), .phase = JobPhase::kTraining};
  job.committed_round = 3;
  job.stages.resize(1);
  RoundRecord round{.key = {JobId(1), 0, 3}, .state = RoundState::kCommitted};
  round.reduces.resize(1);
  round.job_tokens = Tokens(900);
  round.train_loss = 2.5;
  ASSERT_TRUE(write_and_wait(**Store::open(folder_.path()), {job, round}).ok());
  { const TestCoordinator coordinator(folder_.path()); }
  const auto store = Store::open(folder_.path());
  ASSERT_TRUE(store.ok()) << to_string(store.error());
  const auto lines =
      (*store)->reader()->series({.job = JobId(1), .name = "train_loss", .x = "tokens"});
  ASSERT_TRUE(lines.ok() && !lines->empty());
  EXPECT_THAT(lines->at(0).x, ElementsAre(900));
  EXPECT_THAT(lines->at(0).y, ElementsAre(2.5));
}

TEST_F(RuntimeTest, TheTablesGiveTheDigestOfTheLiveCore) {
  auto store = Store::open(folder_.path());
  ASSERT_TRUE(store.ok());
  const Options options;
  Coordinator live(options, {});
  Instant now{1'700'000'000'000'000'000};
  const auto feed = [&](const Input& input) {
    Effects effects;
    now = now + milliseconds(10);
    live.step(now, input, effects);
    std::vector<Record> records;
    for (Effect& effect : effects) {
      if (auto* persist = std::get_if<Persist>(&effect))
        records.push_back(std::move(persist->record));
    }
    ASSERT_TRUE(records.empty() || write_and_wait(**store, records).ok());
    const auto snapshot = (*store)->load();
    ASSERT_TRUE(snapshot.ok()) << to_string(snapshot.error());
    EXPECT_EQ(Coordinator(options, *snapshot).digest(), live.digest());
  };
  feed(Booted{});
  feed(AgentHello{{1}, TestAgent::hello("one")});
  feed(AgentHello{{2}, TestAgent::hello("two")});
  feed(SubmitJob{{1}, small_job("digest")});
  for (int i = 0; i < 5; ++i) {
    now = now + seconds(1);
    feed(Tick{});
  }
  feed(AgentHungUp{{1}});
  now = now + seconds(30);
  feed(Tick{});
}

TEST_F(RuntimeTest, TheCoreTurnsNowAndThenWithoutWork) {
  auto store = Store::open(folder_.path());
  ASSERT_TRUE(store.ok());
  std::promise<void> turned_often;
  int turns = 0;
  auto runtime = Runtime::create({.on_turn =
                                      [&] {
                                        if (++turns == 20) turned_often.set_value();
                                      },
                                  .turn_every = milliseconds(1)},
                                 **store);
  ASSERT_TRUE(runtime.ok());
  auto files = CheckpointFiles::open(folder_.path() + "/checkpoints");
  auto agents = AgentService::start({.bind = "127.0.0.1:0", .door = std::make_shared<OpenDoor>()},
                                    **runtime, **files, {});
  ASSERT_TRUE(agents.ok());
  (*runtime)->start(**agents);
  EXPECT_EQ(turned_often.get_future().wait_for(std::chrono::seconds(20)),
            std::future_status::ready);
  (*agents)->stop();
  (*runtime)->stop(seconds(5));
}

// A core that has not started takes nothing out of the queue.
TEST_F(RuntimeTest, OneStreamDoesNotFillTheQueue) {
  auto store = Store::open(folder_.path());
  ASSERT_TRUE(store.ok());
  auto runtime = Runtime::create({.inputs_max = 100, .inputs_per_stream = 10}, **store);
  ASSERT_TRUE(runtime.ok());
  for (int i = 0; i < 10; ++i) EXPECT_TRUE((*runtime)->post(AgentSaid{{1}, Heartbeat{}})) << i;
  EXPECT_FALSE((*runtime)->post(AgentSaid{{1}, Heartbeat{}}));
  EXPECT_TRUE((*runtime)->post(AgentSaid{{2}, Heartbeat{}})) << "another stream";
  EXPECT_TRUE((*runtime)->post(AgentHungUp{{1}})) << "that it went must be heard";
}

TEST_F(RuntimeTest, CommandsAfterTheStopAreAnswered) {
  TestCoordinator coordinator(folder_.path());
  coordinator.runtime().stop(seconds(5));
  const auto answer = submit_and_wait(coordinator.runtime(), small_job("late"));
  ASSERT_FALSE(answer.result.ok());
  EXPECT_EQ(answer.result.error().code, Code::kUnavailable);
  EXPECT_FALSE(coordinator.runtime().readiness().problems.empty());
}

}  // namespace
}  // namespace shoal::coordinator
