// What goes with age, what goes with a job, and what stays for the next start.
#include "coordinator/store/history.h"

#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/store/rows.h"
#include "coordinator/store/sqlite_reader.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

constexpr Duration kDay = seconds(86'400);
constexpr Instant kNow{1'700'000'000'000'000'000};
constexpr HistoryRules kRules{.keep = kDay * 365, .full = kDay * 30};

Instant ago(std::int64_t days) { return kNow - kDay * days; }

class HistoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Store::open(folder_.path()).ok());  // makes the tables
    auto state =
        Database::open(folder_.path() + "/state.db", OpenMode::kReadWrite, Durability::kNormal);
    ASSERT_TRUE(state.ok()) << to_string(state.error());
    state_ = std::move(state).value();
    auto telemetry = TelemetryWriter::open(folder_.path() + "/telemetry.db");
    ASSERT_TRUE(telemetry.ok()) << to_string(telemetry.error());
    telemetry_ = std::move(telemetry).value();
    EventRecord newest = random_.event(1'000'000);
    newest.at = kNow, newest.job = {};
    write(newest);
  }
  void write(const Record& record) {
    const Status written = write_record(*state_, record);
    ASSERT_TRUE(written.ok()) << to_string(written.error());
  }
  void job(std::uint64_t id, JobPhase phase, Instant finished = {}, Instant removed = {}) {
    JobRecord record = random_.job(id);
    record.phase = phase, record.finished_at = finished, record.removed_at = removed;
    record.epoch = 0, record.committed_round = 31;
    write(record);
  }
  // Rounds 1 to 40, with a contribution each.
  void rounds(std::uint64_t job, Instant opened) {
    for (RoundNumber number = 1; number <= 40; ++number) {
      RoundRecord round = random_.round({JobId(job), 0, number});
      round.opened_at = opened;
      write(round);
      write(random_.contribution(round.key, 1));
    }
  }
  void points(std::uint64_t job, Instant at) {
    std::vector<SeriesPoint> all;
    for (RoundNumber number = 1; number <= 30; ++number) {
      all.push_back({.job = JobId(job), .name = "loss", .step = number, .round = number, .at = at});
    }
    ASSERT_TRUE(telemetry_->append(all).ok());
  }
  // A whole pass; how many steps it took.
  int pass(HistoryRules rules = kRules) {
    History history(*state_, *telemetry_, rules);
    for (int steps = 1; steps < 1000; ++steps) {
      const auto more = history.step();
      EXPECT_TRUE(more.ok()) << to_string(more.error());
      if (!more.ok() || !*more) return steps;
    }
    ADD_FAILURE() << "it does not end";
    return 0;
  }
  std::int64_t count(const std::string& what) {
    return *state_->integer("SELECT count(*) FROM " + what);
  }
  std::vector<double> steps_of_loss(std::uint64_t job) {
    auto reader =
        Database::open(folder_.path() + "/telemetry.db", OpenMode::kReadOnly, Durability::kNormal);
    const auto lines = read_series(**reader, {.job = JobId(job), .name = "loss"});
    return lines->empty() ? std::vector<double>() : lines->front().x;
  }

  TemporaryFolder folder_;
  RandomRecords random_{7};
  std::unique_ptr<Database> state_;
  std::unique_ptr<TelemetryWriter> telemetry_;
};

TEST_F(HistoryTest, OldRoundsAreThinnedAndThoseOfARestartStay) {
  job(1, JobPhase::kPaused);
  rounds(1, ago(31));
  job(2, JobPhase::kTraining);
  rounds(2, ago(29));
  pass();
  EXPECT_EQ(count("rounds WHERE job = 1"), 6)
      << "10, 20, 30, 40, and the committed one and its next";
  EXPECT_EQ(count("rounds WHERE job = 1 AND round IN (31, 32)"), 2);
  EXPECT_EQ(count("contributions WHERE job = 1"), 6);
  EXPECT_EQ(count("rounds WHERE job = 2"), 40);
}

TEST_F(HistoryTest, AJobThatEndedLongAgoKeepsItsRecordOnly) {
  job(1, JobPhase::kCompleted, ago(366));
  job(2, JobPhase::kCompleted, ago(364));
  for (const std::uint64_t id : {1u, 2u}) {
    rounds(id, ago(20));
    points(id, ago(20));
  }
  pass();
  EXPECT_EQ(count("rounds WHERE job = 1"), 0);
  EXPECT_EQ(count("contributions WHERE job = 1"), 0);
  EXPECT_TRUE(steps_of_loss(1).empty());
  EXPECT_EQ(count("jobs"), 2);
  EXPECT_EQ(count("rounds WHERE job = 2"), 40);
  EXPECT_EQ(steps_of_loss(2).size(), 30u);
}

TEST_F(HistoryTest, OfARemovedJobNothingStaysButItsMark) {
  job(1, JobPhase::kCancelled, ago(1), ago(0));
  job(2, JobPhase::kCancelled, ago(1));
  for (const std::uint64_t id : {1u, 2u}) {
    rounds(id, ago(2));
    points(id, ago(2));
    write(random_.submitted_text(id));
    EventRecord event = random_.event(static_cast<std::int64_t>(id));
    event.job = JobId(id), event.at = ago(1);
    write(event);
    ReplicaRecord replica = random_.replica(id);
    replica.job = JobId(id), replica.state = ReplicaState::kReleased, replica.updated_at = ago(1);
    write(replica);
  }
  pass({});
  for (const char* table : {"rounds", "contributions", "submitted_texts", "events", "replicas"}) {
    EXPECT_EQ(count(std::string(table) + " WHERE job = 1"), 0) << table;
    EXPECT_GT(count(std::string(table) + " WHERE job = 2"), 0) << table;
  }
  EXPECT_TRUE(steps_of_loss(1).empty());
  EXPECT_EQ(steps_of_loss(2).size(), 30u);
  EXPECT_EQ(count("jobs"), 2);
  const auto reader =
      open_sqlite_reader(folder_.path() + "/state.db", folder_.path() + "/telemetry.db");
  EXPECT_FALSE(reader->job(JobId(1))->has_value()) << "shown nowhere";
  EXPECT_FALSE(reader->job_by_name("job-1")->has_value());
  EXPECT_EQ(reader->jobs({}, {})->items.size(), 1u);
}

TEST_F(HistoryTest, EventsAndEndedReplicasGoWithAge) {
  for (std::int64_t seq = 1; seq <= 10; ++seq) {
    EventRecord event = random_.event(seq);
    event.at = ago(seq <= 4 ? 366 : 10), event.job = {};
    write(event);
  }
  job(1, JobPhase::kTraining);
  for (const auto& [id, state, days] :
       {std::tuple(1, ReplicaState::kReleased, 366), std::tuple(2, ReplicaState::kServing, 366),
        std::tuple(3, ReplicaState::kFailed, 10)}) {
    ReplicaRecord replica = random_.replica(static_cast<std::uint64_t>(id));
    replica.job = JobId(1), replica.state = state, replica.updated_at = ago(days);
    write(replica);
  }
  pass();
  EXPECT_EQ(count("events"), 7);
  EXPECT_EQ(count("events WHERE seq <= 4"), 0);
  EXPECT_EQ(count("replicas WHERE id = 1"), 0);
  EXPECT_EQ(count("replicas"), 2);
}

TEST_F(HistoryTest, OldSeriesKeepAPointOfTenRounds) {
  job(1, JobPhase::kTraining);
  points(1, ago(31));
  pass();
  EXPECT_THAT(steps_of_loss(1), ::testing::ElementsAre(1, 10, 20, 30));
  pass();
  EXPECT_THAT(steps_of_loss(1), ::testing::ElementsAre(1, 10, 20, 30));
}

TEST_F(HistoryTest, WithoutRulesNothingGoes) {
  job(1, JobPhase::kCompleted, ago(5000));
  rounds(1, ago(5000));
  points(1, ago(5000));
  pass({});
  EXPECT_EQ(count("rounds"), 40);
  EXPECT_EQ(steps_of_loss(1).size(), 30u);
}

TEST_F(HistoryTest, APassGoesThroughManyRowsInSteps) {
  for (std::uint64_t id = 1; id <= 10; ++id) {
    job(id, JobPhase::kCompleted, ago(1));
    rounds(id, ago(40));
  }
  EXPECT_GT(pass(), 400 / History::kRoundsAStep);
  EXPECT_EQ(count("rounds"), 10 * 4);
}

}  // namespace
}  // namespace shoal::coordinator
