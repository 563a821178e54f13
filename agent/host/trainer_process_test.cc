#include "agent/host/trainer_process.h"

#include <csignal>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::agent {
namespace {

constexpr std::chrono::seconds kLimit{20};

class TrainerProcessTest : public testing::Test {
 protected:
  // Starts the scripted trainer; its end is in ended_.
  std::unique_ptr<TrainerProcess> start(const std::string& script) {
    ProcessOptions options{SCRIPTED_TRAINER,
                           {"SCRIPT=" + script, "HOME=/replaced"},
                           [this](std::string_view line) { lines_.emplace_back(line); }};
    auto process = TrainerProcess::start(
        options, [this](ProcessExit exit) { promise_.set_value(std::move(exit)); });
    EXPECT_TRUE(process.ok()) << to_string(process.error());
    return std::move(process).value();
  }
  ProcessExit ended() {
    auto future = promise_.get_future();
    if (future.wait_for(kLimit) != std::future_status::ready) {
      ADD_FAILURE() << "the process did not end";
      return {};
    }
    return future.get();
  }
  std::string log() const {
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return text;
  }

  std::vector<std::string> lines_;  // written by the process's thread, which ends before it
  std::promise<ProcessExit> promise_;
};

TEST_F(TrainerProcessTest, CodeAndLastLineAreTold) {
  const auto process = start("exit");
  const ProcessExit exit = ended();
  EXPECT_EQ(exit.code, 3);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(exit.last_line, "no libtorch here");
  EXPECT_EQ(log(), "first\nno libtorch here\n");
}

TEST_F(TrainerProcessTest, SignalsAreTold) {
  const auto process = start("abort");
  EXPECT_EQ(ended().signal, SIGABRT);
}

TEST_F(TrainerProcessTest, SoftAndHardKills) {
  const auto process = start("hang");
  process->kill(false);
  EXPECT_EQ(ended().signal, SIGTERM) << "signals are not blocked in the child";
  process->kill(true);  // of one that has ended: nothing
}

TEST_F(TrainerProcessTest, DestructionKills) {
  auto process = start("hang");
  process.reset();
  EXPECT_EQ(ended().signal, SIGKILL);
}

TEST_F(TrainerProcessTest, EnvironmentIsOursOverTheInherited) {
  setenv("SHOAL_TEST_INHERITED", "yes", 1);
  const auto process = start("environment");
  EXPECT_EQ(ended().code, 0);
  EXPECT_THAT(log(), testing::HasSubstr("HOME=/replaced\n"));
  EXPECT_THAT(log(), testing::HasSubstr("SHOAL_TEST_INHERITED=yes\n"));
}

TEST_F(TrainerProcessTest, AProgramThatIsNotThereIsNamed) {
  const auto process = TrainerProcess::start(
      {"/nowhere/shoal-trainer", {}, [](std::string_view) {}}, [](ProcessExit) {});
  ASSERT_FALSE(process.ok());
  EXPECT_THAT(process.error().message, testing::HasSubstr("/nowhere/shoal-trainer: No such file"));
}

}  // namespace
}  // namespace shoal::agent
