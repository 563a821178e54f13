// Replicas that compute slower than promised: when that is said, and what plans make of it.
#include "coordinator/core/rounds/speeds.h"

#include <gmock/gmock.h>

#include "coordinator/core/coordinator_test_util.h"
#include "coordinator/core/pipelines_test_util.h"
#include "coordinator/core/records/event_kinds.h"
#include "coordinator/core/replicas/placing.h"
#include "coordinator/core/transaction_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr Instant kStart{1'700'000'000'000'000'000};

std::vector<std::string> told(const std::vector<EventRecord>& events, std::string_view kind) {
  std::vector<std::string> messages;
  for (const EventRecord& event : events) {
    if (event.kind == kind) messages.push_back(event.message);
  }
  return messages;
}

// Two replicas of one stage that train.
struct Trainers : PairRig {
  Trainers() : PairRig(small_job()) {}
  // For so long, at these tokens per second of computing. `of_time`: of its time it computes.
  void train(Duration time, double a_pace, double b_pace, double of_time = 1) {
    for (Duration passed; passed < time; passed = passed + seconds(1)) {
      wait(seconds(1));
      a_tokens += a_pace * of_time, b_tokens += b_pace * of_time;
      say(a, word(rep_a, a_tokens, a_pace));
      say(b, word(rep_b, b_tokens, b_pace));
    }
  }
  Progress word(ReplicaId replica, double tokens, double pace) const {
    Progress progress;
    progress.replica = replica;
    progress.key = key(1);
    progress.tokens = Tokens(static_cast<std::int64_t>(tokens));
    progress.tokens_per_s = pace;
    return progress;
  }
  double a_tokens = 0, b_tokens = 0;
};

TEST(Speeds, ReplicaThatSlowsDown_IsReportedWithinAMinuteAndItsReturnToo) {
  Trainers rig;
  rig.train(seconds(60), 1000, 1000);
  EXPECT_THAT(told(rig.events, event_kind::kReplicaSlow), IsEmpty());
  rig.train(seconds(50), 1000, 100);
  const auto slow = told(rig.events, event_kind::kReplicaSlow);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_THAT(slow[0], HasSubstr("rep_2 of stage 0 on device 0 of b computes at 0.1"));
  EXPECT_THAT(slow[0], HasSubstr("tokens/s, promised 1000 tokens/s; look at the clocks"));
  rig.train(seconds(120), 1000, 100);
  EXPECT_EQ(told(rig.events, event_kind::kReplicaSlow).size(), 1u) << "it is said once";
  rig.train(seconds(60), 1000, 950);
  EXPECT_EQ(told(rig.events, event_kind::kReplicaAsPromised).size(), 1u);
  const EventRecord& last = rig.events.back();
  EXPECT_EQ(last.replica, rig.rep_b);
  EXPECT_EQ(last.severity, Severity::kInfo);
}

TEST(Speeds, ReplicaThatIsSlowFromItsStart_IsFoundByTheOthers) {
  Trainers rig;
  rig.train(seconds(60), 1000, 200);
  const auto slow = told(rig.events, event_kind::kReplicaSlow);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_THAT(slow[0], HasSubstr("of b computes at 0.20 of what was promised"));
}

TEST(Speeds, ReplicaThatWaits_IsNotSlow) {
  Trainers rig;
  rig.train(seconds(60), 1000, 1000);
  rig.train(seconds(120), 1000, 1000, 0.05);
  EXPECT_THAT(told(rig.events, event_kind::kReplicaSlow), IsEmpty());
}

TEST(Speeds, SlowDevice_CountsLessInThePlanOfTheNextJob) {
  Trainers rig;
  rig.train(seconds(60), 1000, 1000);
  rig.train(seconds(60), 1000, 200);
  rig.input(CancelJob{RequestId{4}, rig.id});
  const auto free = [&] {
    State state = rig.state();
    Transaction tx(state, rig.now);
    return placement_input(tx, JobRecord{.spec = small_job("next")}).free;
  };
  ASSERT_EQ(free().size(), 2u);
  EXPECT_DOUBLE_EQ(free()[0].gflops, 10);
  EXPECT_NEAR(free()[1].gflops, 2, 0.1);
  Device measured = rig.state().agents.at(AgentId(2)).devices[0];
  rig.say(rig.b, DeviceMeasured{measured});
  EXPECT_DOUBLE_EQ(free()[1].gflops, 10) << "a new measurement counts";
}

// Service times of 50 ms, then five times as long on the last agent.
TEST(Speeds, PipelineReplicaWithLongerService_IsReported) {
  Piped rig(4);
  std::int64_t microbatches = 0;
  const auto work = [&](Duration time, Duration slow) {
    for (Duration passed; passed < time; passed = passed + seconds(1)) {
      rig.wait(seconds(1));
      microbatches += 4;
      for (const auto agent : rig.agents) {
        rig.say(agent,
                PipelineStats{.replica = rig.last<Assign>(agent)->replica,
                              .service = agent == rig.agents.back() ? slow : milliseconds(50),
                              .microbatches = microbatches});
      }
    }
  };
  work(seconds(40), milliseconds(50));
  EXPECT_THAT(told(rig.events, event_kind::kReplicaSlow), IsEmpty());
  work(seconds(50), milliseconds(250));
  const auto slow = told(rig.events, event_kind::kReplicaSlow);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_THAT(slow[0], HasSubstr("on device 0 of agent-3 computes at 0."));
  EXPECT_THAT(slow[0], HasSubstr("promised 50.0 ms per microbatch"));
}

// One replica of one stage, over a constructed state.
struct SpeedsTest : testing::Test {
  SpeedsTest() {
    AgentRecord agent{.id = AgentId(1), .name = "a"};
    agent.devices = {{.index = 0, .gflops = 100}};
    state.agents.put(agent.id, agent);
    JobRecord job{.id = JobId(1)};
    job.stages.resize(2);
    state.jobs.put(job.id, job);
    add(1, 0);
  }
  void add(std::uint64_t id, StageIndex stage) {
    ReplicaRecord replica{.id = ReplicaId(id), .job = JobId(1), .agent = AgentId(1)};
    replica.stage = stage;
    replica.state = ReplicaState::kServing;
    replica.held_round = 0;
    state.replicas.put(replica.id, replica);
  }
  Effects hear(Duration gap, Duration service) {
    now = now + gap;
    Transaction tx(state, now);
    microbatches += 5;
    note_speed(
        tx, ReplicaId(1),
        PipelineStats{.replica = ReplicaId(1), .service = service, .microbatches = microbatches});
    return effects_of(tx);
  }
  std::vector<ShowSpeed> hear_often(int times, Duration gap, Duration service) {
    std::vector<ShowSpeed> shown;
    for (int i = 0; i < times; ++i) {
      for (const Effect& effect : hear(gap, service)) {
        if (const auto* show = std::get_if<ShowSpeed>(&effect)) shown.push_back(*show);
      }
    }
    return shown;
  }
  State state;
  Instant now = kStart;
  std::int64_t microbatches = 0;
};

TEST_F(SpeedsTest, Ratio_IsShownEveryFewSecondsAndWithEachTurn) {
  const auto sound = hear_often(60, seconds(1), milliseconds(100));
  EXPECT_GE(sound.size(), 10u);
  EXPECT_LE(sound.size(), 12u);
  EXPECT_DOUBLE_EQ(sound.back().ratio, 1);
  EXPECT_EQ(sound.back().slow, "");
  const auto slow = hear_often(60, seconds(1), milliseconds(1000));
  EXPECT_NEAR(slow.back().ratio, 0.1, 0.01);
  EXPECT_THAT(slow.back().slow, HasSubstr("rep_1 on device 0 computes at 0.1"));
}

TEST_F(SpeedsTest, ReplicaThatSharesItsDevice_IsSlowWhenTheOtherDoesNotExplainIt) {
  hear_often(60, seconds(1), milliseconds(100));
  add(2, 1);
  hear_often(120, seconds(1), milliseconds(200));
  EXPECT_FALSE(state.speeds.at(ReplicaId(1)).watch.is_slow());
  hear_often(60, seconds(1), milliseconds(2000));
  EXPECT_TRUE(state.speeds.at(ReplicaId(1)).watch.is_slow());
  EXPECT_NEAR(state.slow_devices.at({AgentId(1), 0}).ratio, 0.1, 0.01);
}

// A microbatch takes 8 s, so a word without a new one tells nothing.
TEST_F(SpeedsTest, WordsWithoutNewWork_AreIgnored) {
  hear_often(60, seconds(1), milliseconds(100));
  for (int i = 0; i < 100; ++i) {
    hear(seconds(1), seconds(8));
    microbatches -= 5;
  }
  EXPECT_FALSE(state.speeds.at(ReplicaId(1)).watch.is_slow());
  hear_often(5, seconds(8), seconds(8));
  EXPECT_TRUE(state.speeds.at(ReplicaId(1)).watch.is_slow());
}

TEST_F(SpeedsTest, FirstWordAfterARestart_CountsAsNoTime) {
  microbatches = 1'000'000;
  hear(seconds(1), milliseconds(100));
  EXPECT_EQ(state.speeds.at(ReplicaId(1)).watch.expected(), 0);
  EXPECT_FALSE(state.speeds.at(ReplicaId(1)).watch.is_sound());
}

}  // namespace
}  // namespace shoal::coordinator
