// Ends of a communicator in threads of one process: sums, strangers, deadlines, and what is left
// after a failure. The library is the host's; nccl_test.cc does the same with GPUs.
#include "swarm/cuda/device_group.h"

#include <future>
#include <vector>

#include <gtest/gtest.h>

#include "swarm/cuda/communicator_test_util.h"

namespace shoal::swarm {
namespace {

bool never() { return false; }

DeviceGroup host_group(
    HostMeeting& meeting, Duration limit = seconds(60),
    HostHook hook = [](HostMoment) { return false; }) {
  return DeviceGroup(std::make_unique<HostLibrary>(meeting, std::move(hook)), limit);
}

// Calls use(rank) in a thread per rank.
template <typename Use>
void in_threads(int size, const Use& use) {
  std::vector<std::future<void>> running;
  for (int rank = 0; rank < size; ++rank) {
    running.push_back(std::async(std::launch::async, [&use, rank] { use(rank); }));
  }
  for (auto& one : running) one.get();
}

TEST(DeviceGroup, AllGetTheSumInTheOrderOfTheRanks) {
  HostMeeting meeting;
  const auto id = host_group(meeting).make_id();
  std::vector<std::vector<float>> values(3);
  in_threads(3, [&](int rank) {
    DeviceGroup group = host_group(meeting);
    ASSERT_TRUE(group.form({1, rank, 3}, *id, never));
    for (int turn = 1; turn <= 4; ++turn) {
      values[static_cast<std::size_t>(rank)] = {1e8f * (rank == 0), 1.f * turn,
                                                -1e8f * (rank == 2)};
      ASSERT_TRUE(group.add(values[static_cast<std::size_t>(rank)].data(), 3, never));
      EXPECT_EQ(values[static_cast<std::size_t>(rank)],
                (std::vector<float>{1e8f, 3.f * turn, -1e8f}));
    }
  });
}

TEST(DeviceGroup, WhoWaitsInVainGivesUp) {
  HostMeeting meeting;
  DeviceGroup group = host_group(meeting, milliseconds(5));
  const auto id = group.make_id();
  const Status late = group.form({1, 0, 2}, *id, never);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kUnavailable);
  EXPECT_FALSE(group.ready(1));
  int asked = 0;
  const Status interrupted = group.form({2, 0, 2}, *group.make_id(), [&] { return ++asked == 3; });
  ASSERT_FALSE(interrupted);
  EXPECT_EQ(interrupted.error().code, Code::kUnavailable);
  ASSERT_TRUE(group.form({3, 0, 1}, *group.make_id(), never)) << "it can be made again";
  EXPECT_TRUE(group.ready(3));
}

TEST(DeviceGroup, ALibraryThatFailsSaysWhyAndIsGivenUp) {
  HostMeeting meeting;
  for (const auto moment : {HostMoment::kBegin, HostMoment::kWaitForAll, HostMoment::kBeginAdd,
                            HostMoment::kWaitForSum}) {
    DeviceGroup group =
        host_group(meeting, seconds(60), [moment](HostMoment now) { return now == moment; });
    Status status = group.form({1, 0, 1}, *group.make_id(), never);
    float value = 7;
    if (status) status = group.add(&value, 1, never);
    ASSERT_FALSE(status) << static_cast<int>(moment);
    EXPECT_EQ(status.error().code, Code::kInternal);
    EXPECT_FALSE(group.ready(1));
  }
}

}  // namespace
}  // namespace shoal::swarm
