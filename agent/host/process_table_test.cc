#include "agent/host/process_table.h"

#include <gmock/gmock.h>
#include <unistd.h>

namespace shoal::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ProcessEntry process(pid_t pid, pid_t parent, pid_t session) {
  return {.id = {pid, 1}, .parent = parent, .session = session};
}

std::vector<pid_t> begun(const std::set<pid_t>& leaders, const std::vector<ProcessEntry>& all) {
  std::vector<pid_t> pids;
  for (const ProcessEntry& each : begun_by(leaders, all)) pids.push_back(each.id.pid);
  return pids;
}

TEST(ProcessTableTest, ALeaderHasItsSessionAndWhatDescendsFromIt) {
  const std::vector<ProcessEntry> all{process(1, 0, 1),   process(10, 1, 10),  process(11, 10, 10),
                                      process(12, 1, 10), process(13, 11, 13), process(20, 1, 20),
                                      process(21, 20, 20)};
  EXPECT_THAT(begun({10}, all), ElementsAre(10, 11, 12, 13));
  EXPECT_THAT(begun({20, 99}, all), ElementsAre(20, 21));
  EXPECT_THAT(begun({}, all), IsEmpty());
  EXPECT_THAT(begun({5}, {process(7, 8, 7), process(8, 7, 8)}), IsEmpty()) << "a loop ends";
}

TEST(ProcessTableTest, OwnMemoryIsWhatNoFileBacks) {
  EXPECT_GT(own_memory(getpid()).count(), 0);
  EXPECT_LT(own_memory(getpid()), read_process(getpid())->resident);
  EXPECT_EQ(own_memory(0), Bytes());
}

}  // namespace
}  // namespace shoal::agent
