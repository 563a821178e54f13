// The files of cgroups, in a plain folder: the kernel's own are not there for every user.
#include "agent/host/program_cgroup.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/host/folder_test_util.h"

namespace shoal::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ProgramCgroupTest : public testing::Test {
 protected:
  ProgramCgroupTest() {
    bounds_.memory = mebibytes(64);
    bounds_.processes = 20;
  }
  void file(const std::string& name, const std::string& text = "") const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  std::string text(const std::string& name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  // As the kernel makes them.
  void make_group() const {
    for (const char* name : {"memory.max", "memory.oom.group", "pids.max", "cgroup.procs"}) {
      file(std::string("program-0-3/") + name);
    }
  }

  TestFolder folder_;
  ProgramBounds bounds_;
};

TEST_F(ProgramCgroupTest, BoundsMemoryAndProcessesOfEachProgram) {
  file("cgroup.controllers", "cpu memory pids\n");
  file("cgroup.subtree_control");
  const auto groups = ProgramCgroups::open(folder_.path(), bounds_);
  ASSERT_TRUE(groups.ok()) << to_string(groups.error());
  EXPECT_EQ(text("cgroup.subtree_control"), "+memory +pids");
  make_group();
  const auto made = (*groups)->make({0, 3});
  ASSERT_TRUE(made.ok()) << to_string(made.error());
  EXPECT_EQ(*made, path("program-0-3/cgroup.procs"));
  EXPECT_EQ(text("program-0-3/memory.max"), "67108864");
  EXPECT_EQ(text("program-0-3/memory.oom.group"), "1");
  EXPECT_EQ(text("program-0-3/pids.max"), "20");
}

TEST_F(ProgramCgroupTest, SaysWhyTheKernelEndedAProgram) {
  file("cgroup.controllers", "memory pids");
  file("cgroup.subtree_control");
  const auto groups = ProgramCgroups::open(folder_.path(), bounds_).value();
  file("program-0-3/memory.events", "low 0\nhigh 0\nmax 4\noom 1\noom_kill 0\n");
  EXPECT_EQ(groups->why_ended({0, 3}), "");
  file("program-0-3/memory.events", "low 0\nhigh 0\nmax 4\noom 1\noom_kill 2\n");
  EXPECT_THAT(groups->why_ended({0, 3}), HasSubstr("--program-memory-gib"));
  EXPECT_EQ(groups->why_ended({1, 1}), "") << "there is none";
}

TEST_F(ProgramCgroupTest, AFolderThatIsNoCgroupIsRefused) {
  const auto refused = ProgramCgroups::open(folder_.path(), bounds_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "--program-cgroup");
  EXPECT_THAT(refused.error().message, HasSubstr("does not bound memory"));
  file("cgroup.controllers", "cpu memory");
  EXPECT_THAT(ProgramCgroups::open(folder_.path(), bounds_).error().message,
              HasSubstr("does not bound pids"));
}

}  // namespace
}  // namespace shoal::agent
