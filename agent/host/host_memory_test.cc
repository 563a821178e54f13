#include "agent/host/host_memory.h"

#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

constexpr std::int64_t kMib = 1 << 20;

// The files of a host with 1 GiB of memory, of which 512 MiB are available.
class Host : public testing::Test {
 protected:
  Host() { write("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n"); }
  void write(const std::string& file, const std::string& text) {
    const std::string path = root() + file;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  void mounts(const std::string& line) { write("/proc/self/mountinfo", line); }
  // A group of version 1, with the pages of files that the kernel could drop.
  void group(const std::string& name, std::int64_t limit, std::int64_t used, std::int64_t files) {
    const std::string folder = "/sys/fs/cgroup/memory" + name;
    write(folder + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    write(folder + "/memory.usage_in_bytes", std::to_string(used) + "\n");
    write(folder + "/memory.stat",
          "total_rss 7\ntotal_inactive_file " + std::to_string(files) + "\n");
  }
  void group2(const std::string& name, const std::string& max, std::int64_t used) {
    const std::string folder = "/sys/fs/cgroup" + name;
    write(folder + "/memory.max", max + "\n");
    write(folder + "/memory.current", std::to_string(used) + "\n");
    write(folder + "/memory.stat", "anon 7\nactive_file 1048576\n");
  }
  std::int64_t free_mib() const {
    const auto levels = memory_levels(root());
    return levels.empty() ? -1 : room_for(Bytes(), levels).count() / kMib;
  }
  std::string root() const { return folder_.path(); }

 private:
  TestFolder folder_;
};

constexpr const char* kVersion1 =
    "24 23 0:21 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
constexpr const char* kVersion2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

TEST_F(Host, ItselfBindsWhereNoGroupDoes) {
  EXPECT_EQ(free_mib(), 512);
  EXPECT_EQ(whole_memory(memory_levels(root())), mebibytes(1024));
}

// The innermost and the outermost group of three have no limit.
TEST_F(Host, AnyGroupOfVersion1MayBindBelowIt) {
  mounts(kVersion1);
  write("/proc/self/cgroup", "5:devices:/a\n4:memory:/a/b/c\n0::/x\n");
  group("", std::int64_t{1} << 62, 0, 0);
  group("/a", 9223372036854771712, 0, 0);
  group("/a/b", 300 * kMib, 250 * kMib, 50 * kMib);
  group("/a/b/c", 9223372036854771712, 0, 0);
  EXPECT_EQ(free_mib(), 100) << "pages of files count as free";
  EXPECT_EQ(whole_memory(memory_levels(root())), mebibytes(300));
}

TEST_F(Host, ASliceOfVersion2BindsTheServicesInIt) {
  mounts(kVersion2);
  write("/proc/self/cgroup", "0::/system.slice/shoal-agent.service\n");
  group2("/system.slice", std::to_string(200 * kMib), 101 * kMib);
  group2("/system.slice/shoal-agent.service", "max", 50 * kMib);
  EXPECT_EQ(free_mib(), 100);
  write("/sys/fs/cgroup/system.slice/memory.high", std::to_string(180 * kMib));
  EXPECT_EQ(free_mib(), 80) << "MemoryHigh= is where the kernel begins to hold it back";
}

// A container sees its own group as the root, by whatever name the host gives it.
TEST_F(Host, AContainerIsBoundByTheGroupThatItIsIn) {
  mounts("35 31 0:32 /docker/af3 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  group("", 400 * kMib, 100 * kMib, 0);
  group("/inner", 350 * kMib, 100 * kMib, 0);
  write("/proc/self/cgroup", "4:memory:/docker/af3\n");
  EXPECT_EQ(free_mib(), 300);
  write("/proc/self/cgroup", "4:memory:/docker/af3/inner\n");
  EXPECT_EQ(free_mib(), 250);
  write("/proc/self/cgroup", "4:memory:/somewhere/else\n");
  EXPECT_EQ(free_mib(), 300) << "what is seen here";
}

TEST_F(Host, UsesTheVersionThatHasTheController) {
  mounts(std::string(kVersion1) + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("/proc/self/cgroup", "4:cpu,memory:/a\n0::/\n");
  group("/a", 90 * kMib, 0, 0);
  EXPECT_EQ(free_mib(), 90);
}

TEST_F(Host, WhatMakesNoSenseLimitsNothing) {
  mounts("garbage\n\n1 2\n - \n" + std::string(kVersion1));
  write("/proc/self/cgroup", "garbage\n4:memory:\n4:memory\n::\n4:memory:/a\n");
  write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "-5 bananas\n");
  EXPECT_EQ(free_mib(), 512);
  write("/proc/meminfo", "MemTotal: many kB\n");
  EXPECT_EQ(free_mib(), -1);
  EXPECT_EQ(whole_memory(memory_levels(root())), Bytes());
}

TEST_F(Host, AFullGroupHasNothingFree) {
  mounts(kVersion1);
  write("/proc/self/cgroup", "4:memory:/a\n");
  group("/a", 100 * kMib, 130 * kMib, 0);
  EXPECT_EQ(free_mib(), 0);
}

TEST_F(Host, WhatIsOursLeavesTheRoomAsItWas) {
  mounts(kVersion1);
  write("/proc/self/cgroup", "4:memory:/a\n");
  group("/a", 100 * kMib, 130 * kMib, 0);
  const auto room = [&](std::int64_t ours) {
    return room_for(mebibytes(ours), memory_levels(root()));
  };
  EXPECT_EQ(room(50), mebibytes(20)) << "others hold 80";
  EXPECT_EQ(room(130), mebibytes(100));
  EXPECT_EQ(room(9000), mebibytes(100)) << "no more than the limit";
}

TEST_F(Host, CountsWhatTheKernelEndedForMemory) {
  EXPECT_EQ(killed_for_memory(root()), 0) << "an old kernel";
  write("/proc/vmstat", "nr_free_pages 9\noom_kill 3\noom_kill_other 5\n");
  EXPECT_EQ(killed_for_memory(root()), 3);
}

TEST(ThisHost, HasSomeMemory) {
  const auto levels = memory_levels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front().name, "the host");
  EXPECT_GT(room_for(Bytes(), levels), mebibytes(16));
}

}  // namespace
}  // namespace shoal::agent
