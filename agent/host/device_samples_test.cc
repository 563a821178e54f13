#include "agent/host/device_samples.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "agent/host/device_probe.h"
#include "agent/host/fake_gpus_test_util.h"

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class DeviceSamplesTest : public testing::Test {
 protected:
  HostMeasured measure(DeviceSamples& samples, const std::set<pid_t>& trainers = {}) {
    HostMeasured measured{mebibytes(1)};
    samples.add_to(measured, trainers, now_);
    now_ = now_ + seconds(10);
    return measured;
  }
  DeviceSamples::Note note() {
    return [this](LogLevel, const std::string& text) { notes_.push_back(text); };
  }

  Instant now_ = from_unix_ms(1'000'000);
  std::vector<std::string> notes_;
};

TEST_F(DeviceSamplesTest, ProcessorsShareTheMemoryOfTheHostAndWhatTheirTrainersHold) {
  HostOptions options;
  options.memory = mebibytes(64);
  std::vector<Device> devices(2);
  devices[0].uuid = "cpu-1-0";
  devices[1].uuid = "cpu-1-1";
  DeviceSamples samples(options, devices, {}, note());
  const HostMeasured measured = measure(samples);
  ASSERT_THAT(measured.samples, SizeIs(2));
  EXPECT_EQ(measured.samples[1].uuid, "cpu-1-1");
  ASSERT_THAT(measured.memory, SizeIs(2));
  EXPECT_EQ(measured.memory[1].uuid, "cpu-1-1");
  EXPECT_EQ(measured.memory[1].memory, mebibytes(32)) << "half of what is declared";

  // This process plays a trainer: what it holds is added to what is free.
  std::vector<char> held(std::size_t{256} << 20, 1);
  options.memory = {};
  DeviceSamples undeclared(options, {devices[0]}, {}, note());
  const Bytes without = measure(undeclared).memory[0].memory;
  const Bytes with = measure(undeclared, {getpid()}).memory[0].memory;
  EXPECT_GT(with - without, mebibytes(100)) << int{held.back()};
}

TEST_F(DeviceSamplesTest, GpusAreSampledAndAQuestionThatIsNeverAnsweredIsNamedOnce) {
  const FakeGpus gpus{"a", "b"};
  gpus.set("b/partial", "power");
  HostOptions options;
  options.driver = FakeGpus::driver();
  const auto probed = probe_devices("auto", std::nullopt, options.driver);
  ASSERT_TRUE(probed.ok());
  options.gpus = probed->gpus;
  options.driver.answer_limit = seconds(30);  // of a busy host
  // With trainers that were left the driver is asked before the first Hello.
  DeviceSamples samples(options, probed->devices, {getpid()}, note());
  const HostMeasured measured = measure(samples);
  ASSERT_THAT(measured.samples, SizeIs(2));
  EXPECT_EQ(measured.samples[0].uuid, "GPU-a");
  EXPECT_EQ(measured.samples[0].answer, DeviceAnswer::kWhole);
  EXPECT_EQ(measured.samples[1].answer, DeviceAnswer::kWhole);
  EXPECT_THAT(measured.memory, SizeIs(2));
  ASSERT_THAT(notes_, SizeIs(1));
  EXPECT_EQ(notes_[0], "GPU-b: it has never answered: power (Unknown Error)");
  measure(samples);
  EXPECT_THAT(notes_, SizeIs(1));
}

TEST_F(DeviceSamplesTest, AnAgentThatOnlyRelaysHasNone) {
  DeviceSamples samples(HostOptions(), {}, {}, note());
  EXPECT_THAT(measure(samples).samples, IsEmpty());
  EXPECT_THAT(measure(samples).memory, IsEmpty());
}

}  // namespace
}  // namespace shoal::agent
