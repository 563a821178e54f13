#include "coordinator/core/state/device_faults.h"

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

DeviceSample sample(DeviceErrors errors = {}) {
  return {.uuid = "GPU-a", .answer = DeviceAnswer::kWhole, .errors = std::move(errors)};
}

DeviceSample with_xid(std::int32_t xid, std::int64_t count = 1, Duration ago = seconds(1)) {
  return sample({.xids = {{xid, count, ago}}});
}

DeviceSample lost() {
  return {.uuid = "GPU-a", .answer = DeviceAnswer::kLost, .error = "GPU is lost"};
}

// What is new after a healthy report.
DeviceFault seen(const DeviceSample& now) {
  const DeviceFacts healthy = facts_after(nullptr, sample());
  return new_fault(&healthy, now, {}).fault;
}

TEST(DeviceFaults, XidsOfProgramsAndOfTheDriversRepairs_AreNoFaults) {
  for (const std::int32_t xid : {8, 13, 31, 43, 45, 63, 68, 92, 94, 109, 154}) {
    EXPECT_FALSE(is_fatal_xid(xid)) << xid;
    EXPECT_EQ(seen(with_xid(xid)), DeviceFault::kNone) << xid;
  }
  for (const std::int32_t xid : {48, 62, 64, 74, 79, 95, 119, 120, 140, 143}) {
    EXPECT_TRUE(is_fatal_xid(xid)) << xid;
    EXPECT_EQ(seen(with_xid(xid)), DeviceFault::kXid) << xid;
  }
}

TEST(DeviceFaults, LastingFaults_AreReadFromTheReport) {
  EXPECT_EQ(seen(sample()), DeviceFault::kNone);
  EXPECT_EQ(seen(lost()), DeviceFault::kLost);
  EXPECT_EQ(seen(sample({.remap_pending = true})), DeviceFault::kRemapPending);
  EXPECT_EQ(seen(sample({.remap_pending = true, .remap_failed = true})), DeviceFault::kRemapFailed);
  DeviceSample reset = with_xid(79);
  reset.errors->recovery = RecoveryAction::kResetGpu;
  EXPECT_EQ(seen(reset), DeviceFault::kRecoveryAction) << "its end can be seen, an XID's cannot";
  const DeviceFacts healthy = facts_after(nullptr, sample());
  EXPECT_EQ(
      new_fault(&healthy, reset, {}).reasons,
      (std::vector<std::string>{"its driver asks for reset_gpu", "its driver reported XID 79"}));
  EXPECT_EQ(new_fault(nullptr, lost(), {}).reasons,
            std::vector<std::string>{"its UUID does not answer any more: GPU is lost"});
}

TEST(DeviceFaults, HeatPowerAndCorrectedErrors_AreNoFaults) {
  DeviceSample hot = sample({.ecc_corrected = 9000, .rows_remapped = 2, .pcie_replays = 70});
  hot.climate = DeviceClimate{
      .celsius = 95, .watts = 700, .watts_limit = 700, .throttled = {"hw_thermal_slowdown"}};
  EXPECT_EQ(seen(hot), DeviceFault::kNone);
}

TEST(DeviceFaults, SilentDevice_HasNoFaultButItsXids) {
  DeviceSample silent = sample({.remap_pending = true});
  silent.answer = DeviceAnswer::kSilent;
  EXPECT_EQ(seen(silent), DeviceFault::kNone) << "the values are of its last answer";
  silent.errors->xids = {{119, 1, {}}};
  EXPECT_EQ(seen(silent), DeviceFault::kXid) << "a GPU that hangs";
}

TEST(DeviceFaults, SameReport_IsNewOnce) {
  for (const DeviceSample& now :
       {lost(), with_xid(79), sample({.remap_pending = true}), sample({.ecc_uncorrected = 3})}) {
    const DeviceFacts before = facts_after(nullptr, now);
    EXPECT_EQ(new_fault(&before, now, seconds(1000)).fault, DeviceFault::kNone);
  }
}

TEST(DeviceFaults, SecondEqualXid_IsNew) {
  const DeviceFacts before = facts_after(nullptr, with_xid(79, 1));
  const FaultSeen again = new_fault(&before, with_xid(79, 2), {});
  EXPECT_EQ(again.fault, DeviceFault::kXid);
  EXPECT_EQ(again.reasons, std::vector<std::string>{"its driver reported XID 79"});
}

TEST(DeviceFaults, XidOfADeviceThatNobodyKnew_IsNewIfItIsYoungerThanTheSilence) {
  EXPECT_EQ(new_fault(nullptr, with_xid(79, 1, seconds(50)), seconds(60)).fault, DeviceFault::kXid);
  EXPECT_EQ(new_fault(nullptr, with_xid(79, 1, seconds(70)), seconds(60)).fault,
            DeviceFault::kNone);
}

TEST(DeviceFaults, UncorrectedErrors_CountFromTheFirstReport) {
  EXPECT_EQ(new_fault(nullptr, sample({.ecc_uncorrected = 7}), seconds(60)).fault,
            DeviceFault::kNone);
  const DeviceFacts before = facts_after(nullptr, sample({.ecc_uncorrected = 7}));
  const FaultSeen more = new_fault(&before, sample({.ecc_uncorrected = 9}), {});
  EXPECT_EQ(more.fault, DeviceFault::kUncorrected);
  EXPECT_EQ(more.reasons,
            std::vector<std::string>{"its memory had 2 errors that were not corrected"});
}

TEST(DeviceFaults, CountersThatFallAndRiseAgain_AreNoFault) {
  DeviceSample high = sample({.ecc_uncorrected = 7, .xids = {{79, 3, {}}}});
  const DeviceFacts before = facts_after(nullptr, high);
  const DeviceFacts fallen = facts_after(&before, sample());
  EXPECT_EQ(fallen.errors, before.errors);
  EXPECT_EQ(new_fault(&fallen, high, {}).fault, DeviceFault::kNone);
}

TEST(DeviceFaults, ReportWithoutErrors_KeepsThoseBefore) {
  const DeviceFacts before = facts_after(nullptr, with_xid(79));
  const DeviceFacts after = facts_after(&before, lost());
  EXPECT_EQ(after.answer, DeviceAnswer::kLost);
  EXPECT_EQ(after.errors, before.errors);
}

TEST(DeviceFaults, LastingFault_EndsWithTheFirstReportWithoutIt) {
  const DeviceSample pending = sample({.remap_pending = true});
  const DeviceFacts before = facts_after(nullptr, pending);
  EXPECT_EQ(fault_after(DeviceFault::kRemapPending, &before, pending).fault,
            DeviceFault::kRemapPending);
  EXPECT_EQ(fault_after(DeviceFault::kRemapPending, &before, sample()).fault, DeviceFault::kNone);
  DeviceSample partial = sample();
  partial.answer = DeviceAnswer::kPartial;
  EXPECT_EQ(fault_after(DeviceFault::kLost, &before, partial).fault, DeviceFault::kNone);
  partial.errors = {};
  EXPECT_EQ(fault_after(DeviceFault::kRemapPending, &before, partial).fault,
            DeviceFault::kRemapPending)
      << "it was not answered";
}

TEST(DeviceFaults, XidThatLeadsToALastingFault_EndsWithIt) {
  const DeviceFacts before = facts_after(nullptr, with_xid(79));
  const FaultSeen gone = fault_after(DeviceFault::kXid, &before, lost());
  EXPECT_EQ(gone.fault, DeviceFault::kLost);
  EXPECT_EQ(gone.reasons,
            std::vector<std::string>{"its UUID does not answer any more: GPU is lost"});
  const DeviceFacts away = facts_after(&before, lost());
  EXPECT_EQ(fault_after(DeviceFault::kLost, &away, sample()).fault, DeviceFault::kNone);
  EXPECT_EQ(fault_after(DeviceFault::kXid, &before, sample()).fault, DeviceFault::kXid)
      << "nothing shows a reset";
}

TEST(DeviceFaults, UncorrectedErrors_EndWhenTheirCounterBeginsAnew) {
  const DeviceFacts before = facts_after(nullptr, sample({.ecc_uncorrected = 2}));
  const auto after = [&](std::int64_t count) {
    return fault_after(DeviceFault::kUncorrected, &before, sample({.ecc_uncorrected = count}))
        .fault;
  };
  EXPECT_EQ(after(2), DeviceFault::kUncorrected);
  EXPECT_EQ(after(0), DeviceFault::kNone);
}

TEST(DeviceFaults, EveryFault_NamesWhatEndsIt) {
  for (const auto& [fault, word] : kEnumerators<DeviceFault>) {
    const std::string end = what_ends(fault, "agent-1");
    EXPECT_TRUE(end.ends_with("shoal agent uncordon agent-1")) << word;
  }
  EXPECT_EQ(what_ends(DeviceFault::kXid, "agent-1"),
            "reset the GPU or reboot its host, then run shoal agent uncordon agent-1");
}

}  // namespace
}  // namespace shoal::coordinator
