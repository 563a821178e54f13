// What an agent counts of its trainers, sessions and transfers.
#include "agent/host/host_meters.h"

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace shoal::agent {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr LinkId kFirst{1}, kSecond{2};

class HostMetersTest : public testing::Test {
 protected:
  std::string text() const {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, meters_.registry()->Collect());
    return text.str();
  }
  // "trainers 2": the value of shoal_host_trainers.
  void expect(const std::string& series) {
    EXPECT_THAT(text(), HasSubstr("\nshoal_host_" + series + "\n"));
  }

  HostMeters meters_{"1.2"};
};

TEST_F(HostMetersTest, SeriesExistFromTheStart) {
  for (const char* series :
       {"build_info{version=\"1.2\"} 1", "trainers 0", "trainers_ended_total{result=\"memory\"} 0",
        "session_up 0", "downloaded_bytes_total{kind=\"dataset\"} 0",
        "uploaded_bytes_total{kind=\"checkpoint\"} 0", "output_floods_total 0"})
    expect(series);
}

TEST_F(HostMetersTest, TrainersAreCountedFromStartToEnd) {
  meters_.observe(Input(Booted{.left = {{.trainer = {1, 4}}}}));
  expect("trainers 1");
  meters_.observe(Effect(StartTrainer{.trainer = {0, 5}}));
  expect("trainers 2");
  expect("trainers_started_total 1");
  meters_.observe(Input(TrainerExited{{0, 5}, {.code = 0}}));
  meters_.observe(Effect(StartTrainer{.trainer = {0, 6}}));
  meters_.observe(Input(TrainerExited{{0, 6}, {.signal = 9, .for_memory = true}}));
  meters_.observe(Effect(StartTrainer{.trainer = {0, 7}}));
  meters_.observe(Input(TrainerExited{{0, 7}, {.signal = 6}}));
  meters_.observe(Input(TrainerExited{{1, 4}, {.known = false}}));
  expect("trainers 0");
  expect("trainers_started_total 3");
  for (const char* end : {"normal", "memory", "failed", "unknown"})
    expect(std::string("trainers_ended_total{result=\"") + end + "\"} 1");
}

TEST_F(HostMetersTest, ALostSessionIsNoFailedAttempt) {
  meters_.observe(Effect(OpenLink{.link = kFirst}));
  meters_.observe(Input(LinkDown{kFirst, {}}));
  expect("session_failures_total 1");
  meters_.observe(Effect(OpenLink{.link = kSecond}));
  meters_.observe(Input(CoordinatorSaid{kFirst, Welcome()}));
  expect("session_up 0");
  meters_.observe(Input(CoordinatorSaid{kSecond, Welcome()}));
  expect("session_up 1");
  expect("sessions_total 1");
  meters_.observe(Effect(SendCoordinator{kSecond, Heartbeat()}));
  meters_.observe(Effect(SendCoordinator{kSecond, Heartbeat()}));
  expect("heartbeats_total 2");
  meters_.observe(Input(LinkDown{kFirst, {}}));
  expect("session_up 1");
  meters_.observe(Input(LinkDown{kSecond, {}}));
  expect("session_up 0");
  expect("session_losses_total 1");
  expect("session_failures_total 1");
}

TEST_F(HostMetersTest, ASessionThatTheAgentClosesIsNoLoss) {
  meters_.observe(Effect(OpenLink{.link = kFirst}));
  meters_.observe(Input(CoordinatorSaid{kFirst, Welcome()}));
  meters_.observe(Effect(CloseLink{kFirst}));
  expect("session_up 0");
  expect("session_losses_total 0");
}

// A fetch that continues at byte 100, falls back to 40 and ends at 250 has moved 60 and 210 bytes.
TEST_F(HostMetersTest, TransfersCountTheBytesThatMoved) {
  const CheckpointPartId part{.checkpoint = CheckpointId(3)};
  const auto is_at = [&](std::int64_t done) {
    meters_.observe(Input(CheckpointFetchMoved{part, Bytes(done), Bytes(250)}));
  };
  for (const std::int64_t done : {100, 160, 40, 250}) is_at(done);
  meters_.observe(Input(CheckpointFetched{part}));
  expect("downloaded_bytes_total{kind=\"checkpoint\"} 270");
  is_at(0);
  is_at(5);
  expect("downloaded_bytes_total{kind=\"checkpoint\"} 275");

  meters_.observe(Input(CheckpointUploadMoved{part, Bytes(7)}));
  meters_.observe(Input(CheckpointUploadMoved{part, Bytes(17)}));
  expect("uploaded_bytes_total{kind=\"checkpoint\"} 10");
  meters_.observe(Input(CodeFetchMoved{"abc", Bytes(0), Bytes(9)}));
  meters_.observe(Input(CodeFetchMoved{"abc", Bytes(9), Bytes(9)}));
  expect("downloaded_bytes_total{kind=\"code\"} 9");
  meters_.dataset_read(Bytes(64));
  expect("downloaded_bytes_total{kind=\"dataset\"} 64");
}

TEST_F(HostMetersTest, ATrainerThatEndedHasNoResidentMemory) {
  meters_.measured(Bytes(10), {{0, Bytes(20)}, {1, Bytes(30)}});
  expect("agent_resident_bytes 10");
  expect("trainer_resident_bytes{trainer=\"1\"} 30");
  meters_.measured(Bytes(10), {{0, Bytes(25)}});
  expect("trainer_resident_bytes{trainer=\"0\"} 25");
  EXPECT_THAT(text(), Not(HasSubstr("trainer=\"1\"")));
}

TEST_F(HostMetersTest, FloodsOfOutputAreCountedWithTheirBytes) {
  meters_.output_left_out(Bytes(1000));
  meters_.output_left_out(Bytes(500));
  expect("output_floods_total 2");
  expect("output_left_out_bytes_total 1500");
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.insert((*it)[1]);
  return found;
}

// The section of agents in docs/metrics.md lists these metrics, no more and no less.
TEST_F(HostMetersTest, AreThoseOfTheirPage) {
  meters_.measured(Bytes(10), {{0, Bytes(20)}});
  std::ifstream page(SHOAL_SOURCE_FOLDER "/docs/metrics.md");
  ASSERT_TRUE(page);
  std::string line, tables;
  while (std::getline(page, line) && line != "## An agent") {
  }
  while (std::getline(page, line)) {
    if (line.starts_with("| `")) tables += line.substr(0, line.find('|', 1)) + "\n";
  }
  EXPECT_EQ(matches(tables, "`([a-z_]+)`"), matches(text(), "# TYPE ([a-z_]+) "));
}

}  // namespace
}  // namespace shoal::agent
