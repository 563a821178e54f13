// What is kept of devices: states over a restart, minutes, ten minutes, and their bounds.
#include "coordinator/store/device_history.h"

#include <gtest/gtest.h>

#include "coordinator/store/store_test_util.h"
#include "coordinator/store/telemetry.h"

namespace shoal::coordinator {
namespace {

constexpr Instant kBegan = from_unix_ms(1'800'000'000'000);  // a multiple of ten minutes

class DeviceHistoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    writer_ = std::move(*TelemetryWriter::open(path()));
    reader_ = std::move(*Database::open(path(), OpenMode::kReadOnly, Durability::kNormal));
  }
  std::string path() const { return folder_.path() + "/telemetry.db"; }

  static DeviceState state(std::uint64_t agent, std::int32_t index) {
    DeviceState state{.agent = AgentId(agent), .index = index, .name = "H200", .at = kBegan};
    state.sample = {.uuid = uuid_of(agent, index), .answer = DeviceAnswer::kWhole};
    return state;
  }
  static std::string uuid_of(std::uint64_t agent, std::int32_t index) {
    return "GPU-" + std::to_string(agent) + "-" + std::to_string(index);
  }
  static DeviceMinute minute(std::uint64_t agent, std::int32_t index, std::int64_t number,
                             double busy) {
    DeviceMinute minute{.agent = AgentId(agent), .uuid = uuid_of(agent, index)};
    minute.point = {.at = kBegan + seconds(60 * number),
                    .busy = busy,
                    .used_here = Bytes(100 * number),
                    .used_elsewhere = Bytes(5),
                    .celsius = 50 + static_cast<double>(number),
                    .watts = 300,
                    .mhz = 1200,
                    .throttled = 0.5};
    return minute;
  }
  void write(DeviceLog log) { ASSERT_TRUE(writer_->append(log).ok()); }
  std::vector<DeviceLine> history(std::uint64_t agent, Instant from = {}) {
    auto lines = read_device_history(*reader_, AgentId(agent), from);
    SHOAL_CHECK(lines.ok(), lines.ok() ? "" : to_string(lines.error()));
    return std::move(*lines);
  }
  std::int64_t rows(std::int64_t span) {
    return *reader_->integer("SELECT count(*) FROM device_points WHERE span_s = " +
                             std::to_string(span));
  }

  TemporaryFolder folder_;
  std::unique_ptr<TelemetryWriter> writer_;
  std::unique_ptr<Database> reader_;
};

TEST_F(DeviceHistoryTest, MinutesOfAnAgent_AreReadByDevice) {
  write({{state(1, 0), state(1, 1), state(2, 0)},
         {minute(1, 0, 0, 0.25), minute(1, 1, 0, 1), minute(2, 0, 0, 0)}});
  write({{}, {minute(1, 0, 1, 0.75)}});
  const auto lines = history(1);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].uuid, "GPU-1-0");
  EXPECT_EQ(lines[0].name, "H200");
  EXPECT_EQ(lines[1].index, 1);
  EXPECT_EQ(lines[0].points,
            (std::vector{minute(1, 0, 0, 0.25).point, minute(1, 0, 1, 0.75).point}));
  EXPECT_EQ(history(1, kBegan + seconds(1))[0].points.size(), 1u) << "from there on";
  EXPECT_TRUE(history(3).empty());
}

TEST_F(DeviceHistoryTest, TenMinutesThatAreOver_AreOneRow) {
  write({{state(1, 0)}, {}});
  for (int n = 0; n <= 10; ++n) write({{}, {minute(1, 0, n, n < 5 ? 1 : 0)}});
  EXPECT_EQ(rows(600), 1);
  EXPECT_EQ(rows(60), 11) << "minutes stay for their time";
  const auto lines = history(1);
  ASSERT_EQ(lines[0].points.size(), 2u) << "ten minutes, and the minute after them";
  EXPECT_EQ(lines[0].points[0], (DevicePoint{.at = kBegan,
                                             .busy = 0.5,
                                             .used_here = Bytes(900),
                                             .used_elsewhere = Bytes(5),
                                             .celsius = 59,
                                             .watts = 300,
                                             .mhz = 1200,
                                             .throttled = 0.5}));
  EXPECT_EQ(lines[0].points[1].at, kBegan + seconds(600));
}

TEST_F(DeviceHistoryTest, History_IsBounded) {
  write({{state(1, 0)}, {}});
  constexpr std::int64_t kDays = 9;
  for (std::int64_t n = 0; n < kDays * 24 * 6; ++n) write({{}, {minute(1, 0, 10 * n, 1)}});
  EXPECT_EQ(rows(60), 3 * 6 + 1) << "of the last three hours";
  EXPECT_EQ(rows(600), 7 * 24 * 6) << "of the last seven days";
}

TEST_F(DeviceHistoryTest, ManyDevices_KeepAShorterHistory) {
  DeviceLog log;
  for (int device = 0; device < 200; ++device) log.states.push_back(state(1, device));
  write(log);
  // Two million minutes of a hundred thousand devices are twenty minutes of each.
  DeviceLog first{{}, {minute(1, 0, 0, 1)}}, later;
  write(first);
  for (int device = 0; device < 100'000; ++device)
    later.minutes.push_back(minute(1, device, 30, 1));
  write(later);
  EXPECT_EQ(rows(60), 200) << "the first minute is older";
  EXPECT_EQ(rows(600), 1);
}

TEST_F(DeviceHistoryTest, State_IsReadWithItsNewestMinute) {
  DeviceState sick = state(1, 0);
  sick.sample.answer = DeviceAnswer::kPartial;
  sick.sample.error = "no temperature";
  sick.sample.errors = DeviceErrors{
      .ecc_corrected = 3, .recovery = RecoveryAction::kResetGpu, .xids = {{79, 2, seconds(10)}}};
  write({{sick, state(2, 0)}, {minute(1, 0, 4, 0.5)}});
  const auto devices = read_devices(*reader_);
  ASSERT_TRUE(devices.ok());
  ASSERT_EQ(devices->size(), 2u);
  const DeviceState& read = devices->front();
  EXPECT_EQ(read.agent, AgentId(1));
  EXPECT_EQ(read.name, "H200");
  EXPECT_EQ(read.at, kBegan + seconds(300)) << "where its newest minute ends";
  EXPECT_EQ(read.sample.answer, DeviceAnswer::kPartial);
  EXPECT_EQ(read.sample.error, "no temperature");
  EXPECT_EQ(read.sample.use->busy, 0.5);
  EXPECT_EQ(read.sample.use->used_here, Bytes(400));
  EXPECT_EQ(read.sample.climate->celsius, 54);
  DeviceErrors older = *sick.sample.errors;
  older.xids[0].ago = seconds(310);
  EXPECT_EQ(*read.sample.errors, older);
  EXPECT_EQ(devices->back().at, kBegan);
  EXPECT_FALSE(devices->back().sample.use) << "it was not heard in that minute";
}

TEST_F(DeviceHistoryTest, ForgottenAgent_LeavesNothing) {
  write({{state(1, 0), state(2, 0)}, {minute(1, 0, 0, 1), minute(2, 0, 0, 1)}});
  ASSERT_TRUE(writer_->forget(AgentId(1)).ok());
  EXPECT_TRUE(history(1).empty());
  EXPECT_EQ(history(2).size(), 1u);
  EXPECT_EQ(read_devices(*reader_)->size(), 1u);
}

TEST_F(DeviceHistoryTest, DeviceThatIsNotHeardOfAnyMore_GoesWithItsLastPoint) {
  write({{state(1, 0), state(1, 1)}, {minute(1, 0, 0, 1), minute(1, 1, 0, 1)}});
  write({{}, {minute(1, 0, 8 * 24 * 60, 1)}});
  EXPECT_EQ(read_devices(*reader_)->size(), 2u) << "it is looked for at midnight";
  write({{}, {minute(1, 0, (8 * 24 + 16) * 60, 1)}});
  EXPECT_EQ(read_devices(*reader_)->size(), 1u);
}

}  // namespace
}  // namespace shoal::coordinator
