// The helper process is the real one: shoal-agent with the stand-in for NVML.
#include "agent/host/driver_helper.h"

#include <csignal>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/host/fake_gpus_test_util.h"
#include "agent/host/process_id.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kLimitMs = 20'000;

TEST(DriverHelperTest, AnswersEachQuestion) {
  const FakeGpus gpus{"a", "b"};
  gpus.set("print", "a driver that prints\n");
  gpus.set("b/name", "NVIDIA \xff\"H100\"");
  gpus.set("b/busy", "50");
  DriverHelper helper(FakeGpus::driver());
  const auto count = helper.open();
  ASSERT_TRUE(count.ok()) << to_string(count.error());
  EXPECT_EQ(*count, 2u);
  EXPECT_EQ(helper.find(0)->uuid, "GPU-a");
  EXPECT_EQ(helper.describe(1)->memory_total, 150'000'000'000);
  EXPECT_EQ(helper.describe(1)->name, "NVIDIA \xef\xbf\xbd\"H100\"");
  const auto reading = helper.read(1, false);
  ASSERT_TRUE(reading.ok()) << to_string(reading.error());
  EXPECT_DOUBLE_EQ(reading->busy, 0.5);
  gpus.set("b/xid", "31");
  EXPECT_THAT(*helper.xids(1), ElementsAre(31));
}

TEST(DriverHelperTest, AHostWithoutADriverHasNoHelper) {
  DriverOptions options = FakeGpus::driver();
  options.library = "/nonexistent/libnvidia-ml.so.1";
  DriverHelper helper(options);
  const auto count = helper.open();
  ASSERT_TRUE(count.ok()) << to_string(count.error());
  EXPECT_FALSE(count->has_value());
  EXPECT_FALSE(helper.is_open());
}

TEST(DriverHelperTest, AQuestionWithoutAnAnswerEndsTheHelper) {
  const FakeGpus gpus{"a", "b"};
  gpus.set("a/hang", "60");
  DriverHelper helper(FakeGpus::driver());
  ASSERT_TRUE(helper.open().ok());
  const pid_t first = helper.process();
  const auto hung = helper.find(0);
  ASSERT_FALSE(hung.ok());
  EXPECT_EQ(hung.error().message, "no answer within 2 s");
  EXPECT_FALSE(helper.is_open());
  ASSERT_TRUE(helper.open().ok()) << "another one serves";
  EXPECT_NE(helper.process(), first);
  EXPECT_EQ(helper.find(1)->uuid, "GPU-b");
}

TEST(DriverHelperTest, ADriverThatEndsItsCallerEndsTheHelperOnly) {
  const FakeGpus gpus{"a"};
  DriverHelper helper(FakeGpus::driver());
  ASSERT_TRUE(helper.open().ok());
  gpus.set("a/abort", "");
  const auto aborted = helper.read(0, false);
  ASSERT_FALSE(aborted.ok());
  EXPECT_THAT(aborted.error().message, HasSubstr("ended the process that asked it (Aborted)"));
  EXPECT_EQ(helper.find(0).error().message, "the process that asks the driver has ended");
  gpus.set("init_abort", "");
  EXPECT_FALSE(helper.open().ok());
}

TEST(DriverHelperTest, ADriverThatDoesNotStartIsGivenUp) {
  const FakeGpus gpus{"a"};
  gpus.set("init_hang", "60");
  DriverOptions options = FakeGpus::driver();
  options.start_limit = milliseconds(100);
  DriverHelper helper(options);
  EXPECT_EQ(helper.open().error().message, "no answer within 100 ms");
  EXPECT_FALSE(helper.is_open());
}

TEST(DriverHelperTest, AProgramThatIsMissingIsNamed) {
  DriverOptions options = FakeGpus::driver();
  options.program = "/nonexistent/shoal-agent";
  EXPECT_EQ(DriverHelper(options).open().error().message,
            "the process that asks the driver cannot be started");
}

TEST(DriverHelperTest, AStopEndsAQuestion) {
  const FakeGpus gpus{"a"};
  gpus.set("a/hang", "60");
  DriverOptions options = FakeGpus::driver();
  options.answer_limit = seconds(60);
  DriverHelper helper(options);
  ASSERT_TRUE(helper.open().ok());
  std::stop_source stop;
  helper.stop_with(stop.get_token());
  stop.request_stop();
  EXPECT_EQ(helper.find(0).error().message, "this agent stops");
}

TEST(DriverHelperTest, ItHasNoneOfTheDescriptorsOfItsAgent) {
  const FakeGpus gpus{"a"};
  DriverHelper helper(FakeGpus::driver());
  ASSERT_TRUE(helper.open().ok());
  std::set<std::string> descriptors;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(helper.process()) + "/fd")) {
    descriptors.insert(entry.path().filename());
  }
  EXPECT_THAT(descriptors, ElementsAre("0", "1", "2", "3"));
}

// A process of its own plays the agent that is killed.
TEST(DriverHelperTest, ItDiesWithItsAgent) {
  const FakeGpus gpus{"a"};
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t agent = fork();
  if (agent == 0) {
    DriverHelper helper(FakeGpus::driver());
    (void)helper.open();
    const pid_t process = helper.process();
    (void)!write(told[1], &process, sizeof process);
    pause();
    _exit(0);
  }
  pid_t process = -1;
  ASSERT_EQ(read(told[0], &process, sizeof process), static_cast<ssize_t>(sizeof process));
  const auto id = process_with(process);
  ASSERT_TRUE(id.has_value());
  const int helper = open_process(*id);
  ASSERT_GE(helper, 0);
  kill(agent, SIGKILL);
  waitpid(agent, nullptr, 0);
  pollfd ended{helper, POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, kLimitMs), 1);
  for (const int descriptor : {helper, told[0], told[1]}) close(descriptor);
}

}  // namespace
}  // namespace shoal::agent
