// The store as a whole: what is written comes back equal, batches are atomic and ordered, a folder
// has one owner, pages follow keys.
#include "coordinator/store/sqlite_store.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/store/sqlite_reader.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

class SqliteStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    store_.reset();
    auto opened = open_store(folder_.path(), {}, meters_);
    ASSERT_TRUE(opened.ok()) << to_string(opened.error());
    store_ = std::move(opened).value();
  }
  Snapshot load() {
    auto snapshot = store_->load();
    SHOAL_CHECK(snapshot.ok(), snapshot.ok() ? "" : to_string(snapshot.error()));
    return std::move(snapshot).value();
  }

  TemporaryFolder folder_;
  const std::shared_ptr<Meters> meters_ = std::make_shared<Meters>();
  std::unique_ptr<Store> store_;
};

template <typename R>
std::vector<R> of_kind(const std::vector<Record>& records) {
  std::vector<R> result;
  for (const Record& record : records) {
    if (const R* one = std::get_if<R>(&record)) result.push_back(*one);
  }
  return result;
}

TEST_F(SqliteStoreTest, EveryRecordComesBackEqual) {
  RandomRecords random(11);
  std::vector<Record> records{random.counters()};
  for (std::uint64_t id = 1; id <= 40; ++id) {
    JobRecord job = random.job(id);
    if (is_terminal(job.phase)) job.phase = JobPhase::kStalled;
    job.epoch = 0;
    job.committed_round = static_cast<RoundNumber>(id % 2);  // its round 1 is committed or next
    records.push_back(job);
    records.push_back(random.agent(id));
    ReplicaRecord replica = random.replica(id);
    if (is_terminal(replica.state)) replica.state = ReplicaState::kServing;
    records.push_back(replica);
    const RoundKey key{JobId(id), 0, 1};
    records.push_back(random.round(key));
    records.push_back(random.contribution(key, id));
    CheckpointRecord checkpoint = random.checkpoint(id);
    if (checkpoint.state == CheckpointState::kDeleted) checkpoint.state = CheckpointState::kStored;
    records.push_back(checkpoint);
    records.push_back(random.link(id, id + 1));
  }
  ASSERT_TRUE(write_and_wait(*store_, records).ok());
  open();
  const Snapshot snapshot = load();
  EXPECT_EQ(snapshot.links, of_kind<LinkRecord>(records));
  EXPECT_EQ(*store_->reader()->links(), snapshot.links);
  EXPECT_EQ(snapshot.counters, of_kind<CounterRecord>(records).front());
  EXPECT_EQ(snapshot.jobs, of_kind<JobRecord>(records));
  EXPECT_EQ(snapshot.agents, of_kind<AgentRecord>(records));
  EXPECT_EQ(snapshot.replicas, of_kind<ReplicaRecord>(records));
  EXPECT_EQ(snapshot.rounds, of_kind<RoundRecord>(records));
  EXPECT_EQ(snapshot.contributions, of_kind<ContributionRecord>(records));
  EXPECT_EQ(snapshot.checkpoints, of_kind<CheckpointRecord>(records));
}

TEST_F(SqliteStoreTest, AForgottenAgentTakesItsLinesAndItsStartsAlong) {
  RandomRecords random(12);
  const AgentRecord stays = random.agent(2);
  ASSERT_TRUE(write_and_wait(*store_, {random.agent(1), stays, random.link(1, 2), random.link(2, 1),
                                       random.link(2, 3)})
                  .ok());
  ASSERT_TRUE(write_and_wait(*store_, {ForgottenAgent{AgentId(1)}}).ok());
  open();
  const Snapshot snapshot = load();
  EXPECT_EQ(snapshot.agents, std::vector{stays});
  ASSERT_EQ(snapshot.links.size(), 1u);
  EXPECT_EQ(snapshot.links.front().to, AgentId(3));
  auto database =
      Database::open(folder_.path() + "/state.db", OpenMode::kReadOnly, Durability::kFull);
  ASSERT_TRUE(database.ok());
  EXPECT_EQ(*(*database)->integer("SELECT count(*) FROM incarnations WHERE agent = 1"), 0);
  EXPECT_EQ(*(*database)->integer("SELECT count(*) FROM incarnations WHERE agent = 2"), 1);
}

TEST_F(SqliteStoreTest, WhatAJobWasSubmittedAsIsKeptByteForByte) {
  const SubmittedText written{JobId(3), "application/toml",
                              "# \xC3\xBC it's mine\r\n\tname = \"a\"\n\n"};
  RandomRecords random(21);
  ASSERT_TRUE(write_and_wait(*store_, {random.submitted_text(2), written}).ok());
  open();
  const auto read = store_->reader()->submitted_text(JobId(3));
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(*read, std::optional(written));
  EXPECT_EQ(*store_->reader()->submitted_text(JobId(4)), std::nullopt);
}

TEST_F(SqliteStoreTest, ALaterRecordReplacesTheEarlierOne) {
  RandomRecords random(12);
  const JobRecord first = random.job(1);
  JobRecord second = random.job(1);
  ASSERT_TRUE(write_and_wait(*store_, {first}).ok());
  ASSERT_TRUE(write_and_wait(*store_, {second}).ok());
  EXPECT_EQ(load().jobs, std::vector<JobRecord>{second});
}

TEST_F(SqliteStoreTest, ANumberThatIsNoneIsKeptAsSuch) {
  JobRecord job = RandomRecords(13).job(1);
  job.train_loss = std::numeric_limits<double>::quiet_NaN();
  job.validation_loss = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(write_and_wait(*store_, {job}).ok());
  const Snapshot snapshot = load();
  EXPECT_TRUE(std::isnan(snapshot.jobs.at(0).train_loss));
  EXPECT_EQ(snapshot.jobs.at(0).validation_loss, job.validation_loss);
}

TEST_F(SqliteStoreTest, TheSnapshotHoldsTheRoundsThatALiveJobWorksOn) {
  RandomRecords random(14);
  JobRecord job = random.job(1);
  job.phase = JobPhase::kTraining;
  job.epoch = 0;
  job.committed_round = 3;
  std::vector<Record> records{job};
  for (RoundNumber n = 1; n <= 4; ++n) {
    RoundRecord round = random.round({JobId(1), 0, n});
    round.state = n == 4 ? RoundState::kOpen : RoundState::kCommitted;
    records.push_back(round);
    records.push_back(random.contribution(round.key, 9));
  }
  ReplicaRecord released = random.replica(1);
  released.state = ReplicaState::kReleased;
  CheckpointRecord deleted = random.checkpoint(1);
  deleted.state = CheckpointState::kDeleted;
  records.push_back(released);
  records.push_back(deleted);
  ASSERT_TRUE(write_and_wait(*store_, records).ok());
  const Snapshot snapshot = load();
  ASSERT_EQ(snapshot.rounds.size(), 2u);
  EXPECT_EQ(snapshot.rounds[0].key.round, 3);
  EXPECT_EQ(snapshot.rounds[1].key.round, 4);
  EXPECT_EQ(snapshot.contributions.size(), 2u);
  EXPECT_TRUE(snapshot.replicas.empty());
  EXPECT_TRUE(snapshot.checkpoints.empty());
}

TEST_F(SqliteStoreTest, AFailedBatchTakesItsTransactionWithItAndIsFinal) {
  RandomRecords random(15);
  const EventRecord event = random.event(1);
  ASSERT_TRUE(write_and_wait(*store_, {event}).ok());
  const Status repeated = write_and_wait(*store_, {random.job(1), event});  // events only append
  ASSERT_FALSE(repeated.ok());
  EXPECT_TRUE(load().jobs.empty());
  EXPECT_FALSE(write_and_wait(*store_, {random.job(2)}).ok());
}

TEST_F(SqliteStoreTest, DoneIsCalledInOrderAndClosingWritesWhatIsQueued) {
  RandomRecords random(16);
  std::vector<int> order;  // touched by the writer thread, read after it was joined
  for (int i = 0; i < 2000; ++i) {
    store_->write({random.event(i + 1)}, [&order, i](Status status) {
      if (status.ok()) order.push_back(i);
    });
  }
  store_.reset();
  ASSERT_EQ(order.size(), 2000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  open();
  auto page = store_->reader()->events({}, {.limit = 1, .newest_first = true});
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->items.at(0).seq, 2000);
}

TEST_F(SqliteStoreTest, ASecondOpenerIsToldWhoOwnsTheFolder) {
  const auto second = Store::open(folder_.path());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kConflict);
  EXPECT_THAT(second.error().message, HasSubstr("pid " + std::to_string(::getpid())));
  EXPECT_THAT(second.error().remedy, HasSubstr("--data-dir"));
}

TEST_F(SqliteStoreTest, AFileThatIsNoDatabaseIsRefused) {
  TemporaryFolder other;
  std::ofstream(other.path() + "/state.db") << std::string(4096, 'x');
  const auto opened = Store::open(other.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
}

// A page somewhere in the middle, which no query of a start would read.
TEST_F(SqliteStoreTest, APageThatCannotBeReadIsFoundAtTheStart) {
  std::vector<Record> records;
  RandomRecords random(3);
  for (std::int64_t seq = 1; seq <= 2000; ++seq) records.push_back(random.event(seq));
  ASSERT_TRUE(write_and_wait(*store_, std::move(records)).ok());
  store_.reset();
  const std::string path = folder_.path() + "/state.db";
  const auto page = static_cast<std::streamoff>(std::filesystem::file_size(path) / 2 / 4096 * 4096);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(page) << std::string(4096, '\x5a');
  }
  const auto opened = Store::open(folder_.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
  EXPECT_EQ(opened.error().field, path);
  EXPECT_THAT(opened.error().message, HasSubstr("is damaged: Page "));
  EXPECT_THAT(opened.error().remedy, HasSubstr("backup"));
}

TEST_F(SqliteStoreTest, AFileThatWasEmptiedIsNotTakenForANewOne) {
  store_.reset();
  std::filesystem::resize_file(folder_.path() + "/state.db", 0);
  const auto opened = Store::open(folder_.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kDataLoss);
  EXPECT_THAT(opened.error().remedy, HasSubstr("delete it to start with an empty one"));
  std::filesystem::remove(folder_.path() + "/state.db");
  EXPECT_TRUE(Store::open(folder_.path()).ok());
}

TEST_F(SqliteStoreTest, AFirstStartThatDiedLeavesAnEmptyFileThatIsFilled) {
  TemporaryFolder other;
  std::ofstream(other.path() + "/state.db").close();
  EXPECT_TRUE(Store::open(other.path()).ok());
}

TEST_F(SqliteStoreTest, AFolderInPlaceOfTheFileIsNamed) {
  TemporaryFolder other;
  std::filesystem::create_directory(other.path() + "/state.db");
  const auto opened = Store::open(other.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(to_string(opened.error()), HasSubstr("state.db: is a folder"));
}

TEST_F(SqliteStoreTest, AValueThatIsNoneIsToldWithItsTable) {
  ASSERT_TRUE(write_and_wait(*store_, {RandomRecords(4).job(1)}).ok());
  store_.reset();
  {
    auto database =
        Database::open(folder_.path() + "/state.db", OpenMode::kReadWrite, Durability::kFull);
    ASSERT_TRUE((*database)->exec("UPDATE jobs SET phase = 'uraining'").ok());
  }
  open();
  const auto loaded = store_->load();
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, Code::kDataLoss);
  EXPECT_EQ(loaded.error().field, "state.db, jobs.phase");
}

TEST_F(SqliteStoreTest, PagesFollowTheKeyInBothDirections) {
  RandomRecords random(17);
  std::vector<Record> records;
  for (std::int64_t seq = 1; seq <= 25; ++seq) {
    EventRecord event = random.event(seq);
    event.job = JobId(seq % 2 == 0 ? 1 : 2);
    event.severity = seq > 20 ? Severity::kError : Severity::kInfo;
    records.push_back(event);
  }
  ASSERT_TRUE(write_and_wait(*store_, records).ok());
  const auto reader = store_->reader();
  std::vector<std::int64_t> seen;
  PageRequest request{.limit = 5, .newest_first = true};
  for (;;) {
    const auto page = reader->events({.job = JobId(1)}, request);
    ASSERT_TRUE(page.ok()) << to_string(page.error());
    for (const EventRecord& event : page->items) seen.push_back(event.seq);
    if (!page->next) break;
    request.after = *page->next;
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2));
  const auto errors = reader->events({.severity_min = Severity::kWarning}, {});
  ASSERT_TRUE(errors.ok());
  EXPECT_EQ(errors->items.size(), 5u);
  EXPECT_FALSE(errors->next);
}

TEST_F(SqliteStoreTest, JobsAreFoundByNumberNameAndPhase) {
  RandomRecords random(18);
  JobRecord old_run = random.job(1), new_run = random.job(2), other = random.job(3);
  old_run.spec.name = new_run.spec.name = "same";
  old_run.phase = JobPhase::kCompleted;
  new_run.phase = JobPhase::kTraining;
  other.phase = JobPhase::kQueued;
  ASSERT_TRUE(write_and_wait(*store_, {old_run, new_run, other}).ok());
  const auto reader = store_->reader();
  EXPECT_EQ(reader->job_by_name("same")->value(), new_run);
  EXPECT_EQ(reader->job(JobId(3))->value(), other);
  EXPECT_FALSE(reader->job(JobId(4))->has_value());
  const auto page = reader->jobs({}, {.phases = {JobPhase::kTraining, JobPhase::kQueued}});
  ASSERT_TRUE(page.ok());
  EXPECT_EQ(page->items, (std::vector{new_run, other}));
}

TEST_F(SqliteStoreTest, SearchFindsJobsByNameAndDescription) {
  RandomRecords random(20);
  JobRecord named = random.job(1), described = random.job(2), other = random.job(3);
  named.spec.name = "kjv-baseline", described.spec.name = "second", other.spec.name = "third";
  described.spec.description = "As the Baseline, with 50% of the 'batch'";
  ASSERT_TRUE(write_and_wait(*store_, {named, described, other}).ok());
  const auto reader = store_->reader();
  const auto found = [&](const std::string& text) {
    return reader->jobs({.limit = 1}, {.search = text})->items;
  };
  EXPECT_EQ(reader->jobs({}, {.search = "BASELINE"})->items, (std::vector{named, described}));
  EXPECT_EQ(found("50%"), std::vector{described});
  EXPECT_EQ(found("the 'batch'"), std::vector{described});
  EXPECT_TRUE(found("_").empty()) << "no pattern";
}

TEST_F(SqliteStoreTest, RoundsAreOneHistoryOverRollbacks) {
  RandomRecords random(19);
  JobRecord job = random.job(1);
  job.epoch = 1;  // rolled back to round 1, round 2 was committed again
  job.committed_round = 2;
  const RoundRecord kept = random.round({JobId(1), 0, 1});
  const RoundRecord redone = random.round({JobId(1), 0, 2});
  const RoundRecord given_up = random.round({JobId(1), 0, 4});
  const RoundRecord again = random.round({JobId(1), 1, 2});
  const ContributionRecord part = random.contribution(again.key, 4);
  ASSERT_TRUE(write_and_wait(*store_, {job, kept, redone, given_up, again, part}).ok());
  const auto reader = store_->reader();
  EXPECT_EQ(reader->rounds(JobId(1), {})->items, (std::vector{kept, again}));
  EXPECT_EQ(*reader->contributions(again.key), std::vector{part});
  EXPECT_TRUE(reader->contributions(redone.key)->empty());
}

// In the order of the calls, whatever of it has reached the file by then.
TEST_F(SqliteStoreTest, PointsOfRoundsThatWereGivenUpAreForgotten) {
  const auto point = [](RoundNumber round, std::int64_t step) {
    return SeriesPoint{
        .job = JobId(1), .name = "train_loss", .step = step, .round = round, .value = 1};
  };
  store_->append({point(1, 10), point(2, 20), point(3, 30)});
  store_->forget_after(JobId(1), 1);
  store_->append({point(2, 15), point(3, 25)});
  store_->forget_after(JobId(1), 2);
  store_->append({point(3, 22)});
  open();  // closed before, so all is written
  const auto lines = store_->reader()->series({.job = JobId(1), .name = "train_loss"});
  ASSERT_TRUE(lines.ok()) << to_string(lines.error());
  EXPECT_EQ(lines->at(0).x, (std::vector<double>{10, 15, 22}));
}

TEST_F(SqliteStoreTest, DevicesAreThereAfterARestart_UntilTheirAgentIsForgotten) {
  const auto state = [](std::uint64_t agent) {
    DeviceState state{.agent = AgentId(agent), .at = from_unix_ms(1'800'000'000'000)};
    state.sample.uuid = "GPU-a";
    return state;
  };
  DeviceMinute minute{.agent = AgentId(1), .uuid = "GPU-a"};
  minute.point = {.at = from_unix_ms(1'800'000'000'000), .busy = 0.5};
  store_->append_devices({{state(1), state(2)}, {minute}});
  store_->forget_devices(AgentId(2));
  open();  // closed before, so all is written
  const auto devices = store_->reader()->devices();
  ASSERT_TRUE(devices.ok()) << to_string(devices.error());
  ASSERT_EQ(devices->size(), 1u);
  EXPECT_EQ(devices->front().sample.use->busy, 0.5);
  const auto lines = store_->reader()->device_history(AgentId(1), {});
  ASSERT_TRUE(lines.ok()) << to_string(lines.error());
  EXPECT_EQ(lines->at(0).points, std::vector{minute.point});
}

// Nothing else is written that would wake the writer.
TEST_F(SqliteStoreTest, ForgettingNeedsNoOtherWrite) {
  store_->append({{.job = JobId(1), .name = "loss", .step = 1, .round = 2, .value = 1}});
  const auto reader = store_->reader();
  const auto lines = [&] { return reader->series({.job = JobId(1), .name = "loss"})->size(); };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto becomes = [&](std::size_t wanted) {
    while (lines() != wanted && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return lines() == wanted;
  };
  ASSERT_TRUE(becomes(1));
  store_->forget_after(JobId(1), 1);
  EXPECT_TRUE(becomes(0));
}

TEST_F(SqliteStoreTest, ItsStatisticsAreThoseOfTheCommits) {
  RandomRecords random(21);
  ASSERT_TRUE(write_and_wait(*store_, {random.event(1), random.event(2)}).ok());
  ASSERT_TRUE(write_and_wait(*store_, {random.event(3)}).ok());
  const StoreStats stats = store_->stats();
  const StoreMeters& counted = meters_->store;
  EXPECT_EQ(counted.commits.Value(), 2);
  EXPECT_EQ(counted.records.Value(), 3);
  EXPECT_EQ(counted.errors.Value(), 0);
  const auto times = counted.commit_seconds.Collect().histogram;
  EXPECT_EQ(times.sample_count, 2u);
  EXPECT_DOUBLE_EQ(times.sample_sum, counted.commit_seconds_total.Value());
  EXPECT_GT(times.sample_sum, counted.commit_max_seconds.Value());
  EXPECT_LE(times.sample_sum, 2 * counted.commit_max_seconds.Value());
  EXPECT_GT(stats.state_file, Bytes(0));
  EXPECT_GT(stats.telemetry_file, Bytes(0));
  EXPECT_GT(stats.wal_file, Bytes(0));
  EXPECT_FALSE(write_and_wait(*store_, {random.event(1)}).ok());  // events only append
  EXPECT_EQ(counted.errors.Value(), 1);
  EXPECT_EQ(counted.commits.Value(), 2);
}

// Telemetry that cannot be written is counted, and holds nothing else up.
TEST_F(SqliteStoreTest, LostPointsAreCounted) {
  const auto other =
      Database::open(folder_.path() + "/telemetry.db", OpenMode::kReadWrite, Durability::kNormal);
  ASSERT_TRUE((*other)->exec("DROP TABLE points").ok());
  store_->append(
      {{.job = JobId(1), .name = "a", .value = 1}, {.job = JobId(1), .name = "b", .value = 1}});
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (meters_->store.errors.Value() == 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  EXPECT_EQ(meters_->store.errors.Value(), 2);
  EXPECT_TRUE(write_and_wait(*store_, {RandomRecords(22).event(1)}).ok());
}

TEST_F(SqliteStoreTest, TheHistoryOfIncarnationsIsKept) {
  AgentRecord agent = RandomRecords(20).agent(1);
  agent.gone = AgentGone::kNone;
  agent.incarnation = {1};
  agent.updated_at = {100};
  ASSERT_TRUE(write_and_wait(*store_, {agent}).ok());
  agent.incarnation = {2};
  agent.updated_at = {200};
  ASSERT_TRUE(write_and_wait(*store_, {agent}).ok());
  agent.gone = AgentGone::kLeft;
  agent.updated_at = {300};
  ASSERT_TRUE(write_and_wait(*store_, {agent}).ok());
  const auto database =
      Database::open(folder_.path() + "/state.db", OpenMode::kReadOnly, Durability::kFull);
  ASSERT_TRUE(database.ok());
  auto rows = (*database)->prepare(
      "SELECT incarnation, started_at_ns, ended_at_ns, ended_as FROM incarnations ORDER BY "
      "incarnation");
  ASSERT_TRUE(rows.ok());
  ASSERT_TRUE(*rows->step());
  EXPECT_EQ(rows->integer(1), 100);
  EXPECT_EQ(rows->integer(2), 200);
  EXPECT_EQ(rows->text(3), "superseded");
  ASSERT_TRUE(*rows->step());
  EXPECT_EQ(rows->integer(1), 200);
  EXPECT_EQ(rows->integer(2), 300);
  EXPECT_EQ(rows->text(3), "left");
}

}  // namespace
}  // namespace shoal::coordinator
