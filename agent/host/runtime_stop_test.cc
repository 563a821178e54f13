// The end of an agent of which a part hangs.
#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"
#include "agent/host/runtime.h"

namespace shoal::agent {
namespace {

constexpr std::chrono::seconds kLimit{30};

class RuntimeStopTest : public testing::Test {
 protected:
  HostOptions options() {
    HostOptions options;
    options.coordinator = {"127.0.0.1:1", [] { return grpc::InsecureChannelCredentials(); }};
    options.core.name = "node";
    options.core.version = "test";
    options.core.host = "127.0.0.1";
    options.core.devices = {{0, DeviceKind::kCpu, "cpu", Bytes(1 << 30), 0, false}};
    options.core.drain_limit = milliseconds(100);
    options.end_limit = milliseconds(100);
    options.data_dir = folder_.path() + "/agent";
    options.trainer = SCRIPTED_TRAINER;
    options.hangs = [this](const std::string& what) {
      hung_.set_value(what);
      over_.set_value();  // in place of the end of the process
    };
    options.on_turn = [this, over = over_.get_future().share()] {
      if (hangs_) over.wait();
    };
    return options;
  }
  std::string what_hangs(const std::function<void(Runtime&)>& end) {
    auto runtime = Runtime::open(options());
    EXPECT_TRUE(runtime.ok()) << to_string(runtime.error());
    std::thread thread([&] { (*runtime)->run(); });
    end(**runtime);
    auto hung = hung_.get_future();
    const bool named = hung.wait_for(kLimit) == std::future_status::ready;
    if (!named) over_.set_value();
    thread.join();
    return named ? hung.get() : "";
  }

  TestFolder folder_;
  std::atomic<bool> hangs_ = true;
  std::promise<std::string> hung_;
  std::promise<void> over_;
};

TEST_F(RuntimeStopTest, AStopThatHangsEndsAtItsLimitAndIsNamed) {
  EXPECT_EQ(what_hangs([](Runtime& runtime) { runtime.stop(); }), "its deciding thread");
}

TEST_F(RuntimeStopTest, AHandOverThatHangsEndsAtItsLimitAndIsNamed) {
  EXPECT_EQ(what_hangs([](Runtime& runtime) { runtime.hand_over(); }), "its deciding thread");
}

}  // namespace
}  // namespace shoal::agent
