// Series: bucketing with hand-checkable numbers, replica lines and their mean, replacement, bounds.
#include "coordinator/store/telemetry.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

using ::testing::ElementsAre;

class TelemetryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto writer = TelemetryWriter::open(path());
    ASSERT_TRUE(writer.ok()) << to_string(writer.error());
    writer_ = std::move(writer).value();
    auto reader = Database::open(path(), OpenMode::kReadOnly, Durability::kNormal);
    ASSERT_TRUE(reader.ok()) << to_string(reader.error());
    reader_ = std::move(reader).value();
  }
  std::string path() const { return folder_.path() + "/telemetry.db"; }
  static SeriesPoint point(const char* name, std::uint64_t replica, std::int64_t step,
                           double value) {
    return {
        .job = JobId(1), .name = name, .replica = ReplicaId(replica), .step = step, .value = value};
  }
  std::vector<SeriesLine> read(const SeriesQuery& query) {
    auto lines = read_series(*reader_, query);
    SHOAL_CHECK(lines.ok(), lines.ok() ? "" : to_string(lines.error()));
    return std::move(lines).value();
  }

  TemporaryFolder folder_;
  std::unique_ptr<TelemetryWriter> writer_;
  std::unique_ptr<Database> reader_;
};

TEST_F(TelemetryTest, BucketsGiveMeanMinimumAndMaximum) {
  std::vector<SeriesPoint> points;
  for (int step = 0; step < 8; ++step) {
    points.push_back(point("loss", 0, step, step * 10));
    points.back().at = {step < 4 ? 1'000'000'000 : 3'500'000'000};  // of a clock without rhythm
  }
  ASSERT_TRUE(writer_->append(points).ok());
  const auto lines = read({.job = JobId(1), .name = "loss", .max_points = 2});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0].x, ElementsAre(1.5, 5.5));
  EXPECT_THAT(lines[0].y, ElementsAre(15, 55));
  EXPECT_THAT(lines[0].y_min, ElementsAre(0, 40));
  EXPECT_THAT(lines[0].y_max, ElementsAre(30, 70));
  EXPECT_THAT(lines[0].time, ElementsAre(1, 3.5));
}

TEST_F(TelemetryTest, PointsThatAreFewAreNotMerged) {
  ASSERT_TRUE(writer_
                  ->append({point("loss", 0, 1, 1), point("loss", 0, 2, 2), point("loss", 0, 3, 3),
                            point("loss", 0, 1000, 4)})
                  .ok());
  EXPECT_THAT(read({.job = JobId(1), .name = "loss", .max_points = 4}).at(0).x,
              ElementsAre(1, 2, 3, 1000));
  EXPECT_THAT(read({.job = JobId(1), .name = "loss", .max_points = 3}).at(0).x,
              ElementsAre(2, 1000));
}

TEST_F(TelemetryTest, RoundsThatAJobWentBackBehindAreForgotten) {
  std::vector<SeriesPoint> points;
  for (int round = 1; round <= 4; ++round) {
    for (const std::uint64_t replica : {0, 7}) {
      points.push_back(point("loss", replica, round * 10, round));
      points.back().round = round;
    }
  }
  points.push_back(points.back());
  points.back().job = JobId(2);
  ASSERT_TRUE(writer_->append(points).ok());
  ASSERT_TRUE(writer_->forget_after(JobId(1), 2).ok());
  const auto lines = read({.job = JobId(1), .name = "loss", .by_replica = true});
  ASSERT_EQ(lines.size(), 2u);
  for (const SeriesLine& line : lines) EXPECT_THAT(line.y, ElementsAre(1, 2));
  EXPECT_THAT(read({.job = JobId(2), .name = "loss"}).at(0).y, ElementsAre(4));
}

TEST_F(TelemetryTest, ReplicasAreLinesOrOneMean) {
  ASSERT_TRUE(writer_->append({point("speed", 1, 5, 10), point("speed", 2, 5, 30)}).ok());
  const auto mean = read({.job = JobId(1), .name = "speed"});
  ASSERT_EQ(mean.size(), 1u);
  EXPECT_THAT(mean[0].y, ElementsAre(20));
  EXPECT_FALSE(mean[0].replica);
  const auto each = read({.job = JobId(1), .name = "speed", .by_replica = true});
  ASSERT_EQ(each.size(), 2u);
  EXPECT_EQ(each[1].replica, ReplicaId(2));
  EXPECT_THAT(each[1].y, ElementsAre(30));
}

TEST_F(TelemetryTest, TheSeriesOfTheWholeJobIsPreferredToTheMean) {
  ASSERT_TRUE(writer_->append({point("loss", 0, 5, 1), point("loss", 3, 5, 9)}).ok());
  EXPECT_THAT(read({.job = JobId(1), .name = "loss"}).at(0).y, ElementsAre(1));
}

TEST_F(TelemetryTest, AStepToldAgainIsReplacedAndBadNumbersAreLeftOut) {
  ASSERT_TRUE(writer_->append({point("loss", 0, 5, 1)}).ok());
  ASSERT_TRUE(writer_
                  ->append({point("loss", 0, 5, 2),
                            point("loss", 0, 6, std::numeric_limits<double>::quiet_NaN()),
                            point("loss", 0, 7, std::numeric_limits<double>::infinity())})
                  .ok());
  const auto lines = read({.job = JobId(1), .name = "loss"});
  EXPECT_THAT(lines.at(0).x, ElementsAre(5));
  EXPECT_THAT(lines.at(0).y, ElementsAre(2));
}

TEST_F(TelemetryTest, TheSpanAndTheAxisAreTheCallers) {
  std::vector<SeriesPoint> points;
  for (int step = 1; step <= 10; ++step) {
    points.push_back(point("loss", 0, step, step));
    points.back().at = Instant{} + seconds(100 + step);
  }
  ASSERT_TRUE(writer_->append(points).ok());
  EXPECT_THAT(read({.job = JobId(1), .name = "loss", .from = 3, .to = 5}).at(0).x,
              ElementsAre(3, 4, 5));
  EXPECT_THAT(read({.job = JobId(1), .name = "loss", .x = "time", .to = 102}).at(0).x,
              ElementsAre(101, 102));
  EXPECT_EQ(read_series(*reader_, {.job = JobId(1), .name = "loss", .x = "mood"}).error().field,
            "x");
  EXPECT_TRUE(read({.job = JobId(2), .name = "loss"}).empty());
}

TEST_F(TelemetryTest, SeriesAreListedWithTheirNewestPoint) {
  ASSERT_TRUE(writer_
                  ->append({point("loss", 1, 5, 1), point("loss", 2, 7, 3), point("loss", 1, 6, 2),
                            point("a", 0, 1, 9)})
                  .ok());
  EXPECT_THAT(*read_series_of(*reader_, JobId(1)),
              ElementsAre(SeriesNewest{"a", {{1, 9}}}, SeriesNewest{"loss", {{7, 3}}}));
  EXPECT_THAT(*read_series_of(*reader_, JobId(2)), testing::IsEmpty());
}

TEST_F(TelemetryTest, AFileOfAnotherVersionIsReplaced) {
  ASSERT_TRUE(writer_->append({point("loss", 0, 5, 1)}).ok());
  writer_.reset();
  reader_.reset();
  auto database = Database::open(path(), OpenMode::kReadWrite, Durability::kNormal);
  ASSERT_TRUE((*database)->exec("PRAGMA user_version = 99").ok());
  database->reset();
  SetUp();
  EXPECT_TRUE(read({.job = JobId(1), .name = "loss"}).empty());
}

TEST_F(TelemetryTest, ADamagedFileIsSetAside) {
  reader_.reset();
  writer_.reset();  // the last one: it empties the write-ahead log, which would mend the file
  std::ofstream(path()) << std::string(4096, 'x');
  SetUp();
  ASSERT_TRUE(writer_->append({point("loss", 0, 5, 1)}).ok());
  EXPECT_EQ(std::filesystem::file_size(path() + kSetAsideSuffix), 4096u);
}

}  // namespace
}  // namespace shoal::coordinator
