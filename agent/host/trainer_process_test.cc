#include "agent/host/trainer_process.h"

#include <csignal>
#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "agent/host/children.h"
#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

constexpr std::chrono::seconds kLimit{20};

class TrainerProcessTest : public testing::Test {
 protected:
  // Starts the scripted trainer; its end is in ended_.
  std::unique_ptr<TrainerProcess> start(const std::string& script) {
    auto process = TrainerProcess::start(options(script), end_to(promise_));
    EXPECT_TRUE(process.ok()) << to_string(process.error());
    return std::move(process).value();
  }
  Result<std::unique_ptr<TrainerProcess>> adopt(const ProcessId& id) {
    return TrainerProcess::adopt(id, options(""), end_to(adopted_));
  }
  ProcessOptions options(const std::string& script) {
    return {SCRIPTED_TRAINER,
            {},
            {"SCRIPT=" + script, "HOME=/replaced"},
            folder_.path() + "/output.log",
            [this](std::string_view line) { lines_.emplace_back(line); }};
  }
  static std::function<void(ProcessExit)> end_to(std::promise<ProcessExit>& promise) {
    return [&promise](ProcessExit exit) { promise.set_value(std::move(exit)); };
  }
  ProcessExit ended() { return ended(promise_); }
  static ProcessExit ended(std::promise<ProcessExit>& promise) {
    auto future = promise.get_future();
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

  TestFolder folder_;
  std::vector<std::string> lines_;  // written by the process's thread, which ends before it
  std::promise<ProcessExit> promise_, adopted_;
};

TEST_F(TrainerProcessTest, CodeAndLastLineAreTold) {
  const auto process = start("exit");
  const ProcessExit exit = ended();
  EXPECT_EQ(exit.code, 3);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(exit.last_line, "no libtorch here");
  EXPECT_EQ(log(), "first\nno libtorch here\n");
}

TEST_F(TrainerProcessTest, AProgramInThePathGetsItsArguments) {
  ProcessOptions with_arguments = options("");
  with_arguments.program = "echo";
  with_arguments.arguments = {"one", "two words"};
  auto process = TrainerProcess::start(with_arguments, end_to(promise_));
  ASSERT_TRUE(process.ok()) << to_string(process.error());
  EXPECT_EQ(ended().last_line, "one two words");
}

TEST_F(TrainerProcessTest, NoProcessGetsATokenOfTheAgent) {
  ::setenv("SHOAL_JOIN_TOKEN", "shoaljoin1.secret", 1);
  ::setenv("SHOAL_TOKEN_FILE", "/etc/shoal/token", 1);
  ProcessOptions plain = options("");
  plain.program = "env";
  plain.arguments = {"-u", "nothing"};
  auto process = TrainerProcess::start(plain, end_to(promise_));
  ASSERT_TRUE(process.ok()) << to_string(process.error());
  ended();
  ::unsetenv("SHOAL_JOIN_TOKEN");
  ::unsetenv("SHOAL_TOKEN_FILE");
  EXPECT_THAT(log(), testing::HasSubstr("PATH="));
  EXPECT_THAT(log(), testing::Not(testing::HasSubstr("SHOAL_JOIN_TOKEN")));
  EXPECT_THAT(log(), testing::Not(testing::HasSubstr("SHOAL_TOKEN_FILE")));
}

TEST_F(TrainerProcessTest, AConfinedProgramHasItsFolderAndItsPartOfTheEnvironment) {
  if (!can_confine().ok()) GTEST_SKIP() << can_confine().error().message;
  ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  Confinement confinement = system_confinement();
  confinement.own.push_back(folder_.path());
  auto rules = ConfinementRules::make(confinement);
  ASSERT_TRUE(rules.ok()) << to_string(rules.error());
  ProcessOptions confined = options("");
  confined.program = "sh";
  confined.arguments = {"-c", "pwd; env; touch here; ls; cat /etc/shadow; echo done"};
  confined.folder = folder_.path();
  confined.inherited = {"PATH="};
  confined.rules = std::make_shared<ConfinementRules>(std::move(rules).value());
  auto process = TrainerProcess::start(confined, end_to(promise_));
  ASSERT_TRUE(process.ok()) << to_string(process.error());
  EXPECT_EQ(ended().last_line, "done");
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(lines_.front(), folder_.path());
  EXPECT_THAT(log(), testing::HasSubstr("PATH="));
  EXPECT_THAT(log(), testing::Not(testing::HasSubstr("AWS_SECRET_ACCESS_KEY")));
  EXPECT_THAT(lines_, testing::Contains("here"));
  EXPECT_THAT(log(), testing::HasSubstr("/etc/shadow: Permission denied"));
}

TEST_F(TrainerProcessTest, WhatAProgramLeavesBehindEndsWithIt) {
  Children::of_this_process().adopt_orphans();
  ProcessOptions leaving = options("");
  leaving.program = "sh";
  leaving.folder = folder_.path();
  leaving.arguments = {"-c",
                       "setsid sh -c 'echo $$ > first; setsid sh -c \"echo \\$\\$ > second; exec "
                       "sleep 600\" & exec sleep 600' & "
                       "until [ -s first ] && [ -s second ]; do sleep 0.1; done; echo left"};
  auto process = TrainerProcess::start(leaving, end_to(promise_));
  ASSERT_TRUE(process.ok()) << to_string(process.error());
  EXPECT_EQ(ended().last_line, "left");
  for (const char* name : {"/first", "/second"}) {
    pid_t number = 0;
    std::ifstream(folder_.path() + name) >> number;
    ASSERT_GT(number, 0);
    EXPECT_EQ(::kill(number, 0), -1) << name;
  }
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
      {"/nowhere/shoal-trainer", {}, {}, folder_.path() + "/output.log", [](std::string_view) {}},
      [](ProcessExit) {});
  ASSERT_FALSE(process.ok());
  EXPECT_THAT(process.error().message, testing::HasSubstr("/nowhere/shoal-trainer: No such file"));
}

// ---- those of an earlier start of the daemon

TEST_F(TrainerProcessTest, OneThatWasLeftLivesOnAndIsFoundAgain) {
  auto process = start("hang");
  const ProcessId id = process->id();
  process->leave();
  process.reset();
  EXPECT_EQ(process_with(id.pid), id);
  auto adopted = adopt(id);
  ASSERT_TRUE(adopted.ok()) << to_string(adopted.error());
  (*adopted)->kill(true);
  const ProcessExit exit = ended(adopted_);
  EXPECT_FALSE(exit.known);
  EXPECT_FALSE(process_with(id.pid).has_value());
}

TEST_F(TrainerProcessTest, AnAdoptedOneIsKilledWithItsOwner) {
  auto process = start("hang");
  const ProcessId id = process->id();
  process->leave();
  process.reset();
  adopt(id).value().reset();
  EXPECT_FALSE(process_with(id.pid).has_value());
}

TEST_F(TrainerProcessTest, ANumberThatAnotherProcessHasNowIsNotTouched) {
  const auto process = start("hang");
  ProcessId other = process->id();
  ++other.started;
  const auto adopted = adopt(other);
  ASSERT_FALSE(adopted.ok());
  EXPECT_EQ(adopted.error().code, Code::kNotFound);
  EXPECT_EQ(process_with(other.pid), process->id()) << "it lives";
}

TEST_F(TrainerProcessTest, AProcessThatHasEndedIsNotFound) {
  const auto process = start("exit");
  ended();
  EXPECT_EQ(adopt(process->id()).error().code, Code::kNotFound);
  EXPECT_EQ(adopt({0, 0}).error().code, Code::kNotFound);
}

TEST_F(TrainerProcessTest, ItHasASessionOfItsOwn) {
  const auto process = start("hang");
  EXPECT_EQ(getsid(process->id().pid), process->id().pid);
}

}  // namespace
}  // namespace shoal::agent
