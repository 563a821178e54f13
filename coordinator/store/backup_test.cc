// The backup of docs/backup.md, as it is printed there: of a store that is in use, restored into
// another folder.
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "coordinator/store/sqlite_store.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  SHOAL_CHECK(at != std::string::npos, what);
  return text.replace(at, what.size(), with);
}

std::string documented_command() {
  std::ifstream page(SHOAL_SOURCE_FOLDER "/docs/backup.md");
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("sqlite3 -readonly")) return line;
  }
  return "";
}

TEST(Backup, TheDocumentedCommandCopiesAStoreThatIsInUse) {
  if (std::system("command -v sqlite3 > /dev/null") != 0) GTEST_SKIP() << "no sqlite3 installed";
  TemporaryFolder live, copy;
  auto store = Store::open(live.path());
  ASSERT_TRUE(store.ok()) << to_string(store.error());
  RandomRecords random(31);
  JobRecord job = random.job(1);
  job.phase = JobPhase::kStalled;
  ASSERT_TRUE(write_and_wait(**store, {random.counters(), job, random.agent(1)}).ok());

  std::string command = documented_command();
  ASSERT_NE(command, "");
  command = replaced(command, "~/.local/share/shoal/coordinator", live.path());
  command = replaced(command, "/backup", copy.path());
  ASSERT_EQ(std::system((command + " > /dev/null").c_str()), 0) << command;
  ASSERT_TRUE(write_and_wait(**store, {random.agent(2)}).ok());  // it is not disturbed

  auto restored = Store::open(copy.path());
  ASSERT_TRUE(restored.ok()) << to_string(restored.error());
  const auto then = (*restored)->load(), now = (*store)->load();
  ASSERT_TRUE(then.ok() && now.ok());
  EXPECT_EQ(then->counters, now->counters);
  EXPECT_EQ(then->jobs, now->jobs);
  EXPECT_EQ(then->agents.size(), 1u);
  EXPECT_EQ(now->agents.size(), 2u);
}

}  // namespace
}  // namespace shoal::coordinator
