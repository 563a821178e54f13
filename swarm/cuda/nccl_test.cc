// NCCL on real devices; skipped, and said so, where none is. NCCL refuses two ranks on one device,
// by host and bus, so two processes with different NCCL_HOSTID are two hosts to it: that way one
// GPU is enough to see a sum of two ranks, and what an abort leaves when one of them is killed.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "swarm/cuda/device_group.h"
#include "swarm/cuda/nccl_library.h"

extern char** environ;

namespace shoal::swarm {
namespace {

constexpr std::size_t kCount = 1'000'003;
constexpr int kRefused = 42;  // exit status of a child that got no communicator
constexpr Duration kLimit = seconds(20);
constexpr unsigned kChildLimit = 60;  // seconds that a child may live

int devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

bool never() { return false; }

DeviceGroup::Interrupted after(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  return [end] { return std::chrono::steady_clock::now() > end; };
}

DeviceGroup group_on(int device) {
  return DeviceGroup(std::move(*make_nccl_library(device)), kLimit);
}

// kCount values on a device: 1, 2, 3, …, times `factor`.
class Values {
 public:
  Values(int device, float factor) : device_(device), host_(kCount) {
    for (std::size_t i = 0; i < kCount; ++i) host_[i] = factor * static_cast<float>(i % 1000 + 1);
    cudaSetDevice(device_);
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), kCount * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, host_.data(), kCount * sizeof(float), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~Values() { cudaFree(data_); }
  float* data() { return data_; }
  // Whether they are what they were, times `times`.
  bool are(float times) {
    std::vector<float> now(kCount);
    cudaSetDevice(device_);
    EXPECT_EQ(cudaMemcpy(now.data(), data_, kCount * sizeof(float), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return std::ranges::equal(now, host_, [&](float a, float b) { return a == b * times; });
  }

 private:
  const int device_;
  std::vector<float> host_;
  float* data_ = nullptr;
};

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    if (devices() == 0) GTEST_SKIP() << "no CUDA device on this machine";
  }
};

TEST_F(Nccl, OneRankHasItsOwnSum) {
  DeviceGroup group = group_on(0);
  Values values(0, 1);
  for (std::int32_t generation = 1; generation <= 3; ++generation) {
    const auto id = group.make_id();
    ASSERT_TRUE(id.ok()) << to_string(id.error());
    const Status formed = group.form({generation, 0, 1}, *id, never);
    ASSERT_TRUE(formed) << to_string(formed.error());
    const Status added = group.add(values.data(), kCount, never);
    ASSERT_TRUE(added) << to_string(added.error());
    EXPECT_TRUE(values.are(1));
  }
}

TEST_F(Nccl, WhoWaitsForSomebodyWhoNeverComesIsAbortedAndCanGoOnAlone) {
  DeviceGroup group = group_on(0);
  const auto start = std::chrono::steady_clock::now();
  const Status alone =
      group.form({1, 0, 2}, *group.make_id(), after(std::chrono::milliseconds(300)));
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, Code::kUnavailable) << to_string(alone.error());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  Values values(0, 1);
  ASSERT_TRUE(group.form({2, 0, 1}, *group.make_id(), never));
  ASSERT_TRUE(group.add(values.data(), kCount, never));
  EXPECT_TRUE(values.are(1));
}

TEST_F(Nccl, TwoRanksOfOneProcessOnOneDeviceAreRefused) {
  DeviceGroup groups[] = {group_on(0), group_on(0)};
  const auto id = groups[0].make_id();
  std::vector<std::future<Status>> formed;
  for (int rank = 0; rank < 2; ++rank) {
    formed.push_back(std::async(std::launch::async, [&, rank] {
      return groups[rank].form({1, rank, 2}, *id, never);
    }));
  }
  for (auto& one : formed) {
    const Status status = one.get();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kInternal) << to_string(status.error());
  }
}

TEST_F(Nccl, TwoDevicesHaveTheSum) {
  if (devices() < 2) GTEST_SKIP() << "one CUDA device on this machine, this takes two";
  const auto id = group_on(0).make_id();
  std::vector<std::future<void>> running;
  for (int rank = 0; rank < 2; ++rank) {
    running.push_back(std::async(std::launch::async, [&id, rank] {
      DeviceGroup group = group_on(rank);
      Values values(rank, static_cast<float>(rank + 1));
      ASSERT_TRUE(group.form({1, rank, 2}, *id, never));
      ASSERT_TRUE(group.add(values.data(), kCount, never));
      EXPECT_TRUE(values.are(3.f / static_cast<float>(rank + 1)));
    }));
  }
  for (auto& one : running) one.get();
}

// ---- two processes on one device

CommunicatorId id_of(const std::string& hex) {
  CommunicatorId id{};
  for (std::size_t i = 0; i < id.size(); ++i) {
    id[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

// A process that is one rank of two on device 0; `dies`: rank 1 is killed before the second sum.
class Child {
 public:
  Child(const CommunicatorId& id, int rank, bool dies) {
    std::vector<std::string> environment{
        "NCCL_HOSTID=" + std::to_string(rank), "SHOAL_TEST_RANK=" + std::to_string(rank),
        "SHOAL_TEST_ID=" + hex_of(id), std::string("SHOAL_TEST_DIES=") + (dies ? "1" : "0")};
    for (char** one = environ; *one != nullptr; ++one) environment.emplace_back(*one);
    std::vector<std::string> arguments{"nccl_test", "--gtest_also_run_disabled_tests",
                                       "--gtest_filter=NcclChild.DISABLED_IsOneRank"};
    EXPECT_EQ(posix_spawn(&process_, "/proc/self/exe", nullptr, nullptr, pointers(arguments).data(),
                          pointers(environment).data()),
              0);
  }
  int exit_status() const {
    int status = 0;
    waitpid(process_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  }
  pid_t process_ = -1;
};

// What a child does; run by Child alone.
TEST(NcclChild, DISABLED_IsOneRank) {
  const int rank = std::atoi(std::getenv("SHOAL_TEST_RANK"));
  const bool dies = std::string(std::getenv("SHOAL_TEST_DIES")) == "1";
  alarm(kChildLimit);
  DeviceGroup group = group_on(0);
  const Status formed = group.form({1, rank, 2}, id_of(std::getenv("SHOAL_TEST_ID")), never);
  if (!formed) {
    std::fprintf(stderr, "%s\n", to_string(formed.error()).c_str());
    std::_Exit(kRefused);
  }
  Values first(0, static_cast<float>(rank + 1));
  ASSERT_TRUE(group.add(first.data(), kCount, never));
  EXPECT_TRUE(first.are(3.f / static_cast<float>(rank + 1)));
  if (!dies) return;
  if (rank == 1) raise(SIGKILL);
  Values second(0, 1);
  const Status added = group.add(second.data(), kCount, after(std::chrono::seconds(3)));
  ASSERT_FALSE(added) << "the other one is dead";
  ASSERT_TRUE(group.form({2, 0, 1}, *group.make_id(), never));
  Values again(0, 1);
  ASSERT_TRUE(group.add(again.data(), kCount, never));
  EXPECT_TRUE(again.are(1));
}

class NcclProcesses : public Nccl {
 protected:
  // The exit statuses of both ranks.
  static std::pair<int, int> run(bool dies) {
    const auto id = group_on(0).make_id();
    EXPECT_TRUE(id.ok());
    const Child zero(*id, 0, dies), one(*id, 1, dies);
    const int first = zero.exit_status();
    return {first, one.exit_status()};
  }
};

TEST_F(NcclProcesses, TwoOnOneDeviceHaveTheSum) {
  const auto [zero, one] = run(false);
  if (zero == kRefused) GTEST_SKIP() << "this NCCL makes no communicator of two ranks on a device";
  EXPECT_EQ(zero, 0);
  EXPECT_EQ(one, 0);
}

TEST_F(NcclProcesses, WhenOneIsKilledTheOtherAbortsAndGoesOn) {
  const auto [zero, one] = run(true);
  if (zero == kRefused) GTEST_SKIP() << "this NCCL makes no communicator of two ranks on a device";
  EXPECT_EQ(zero, 0);
  EXPECT_EQ(one, -SIGKILL);
}

}  // namespace
}  // namespace shoal::swarm
