// How the bytes of tables and series are shared out among jobs.
#include "coordinator/store/space.h"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(Space, RowsOfAJobCountAsItsShareOfTheirTables) {
  const TemporaryFolder folder;
  auto store = std::move(Store::open(folder.path())).value();
  RandomRecords random(3);
  std::vector<Record> records = {random.job(1), random.job(2)};
  for (RoundNumber number = 1; number <= 40; ++number) {
    records.emplace_back(random.round({JobId(number <= 30 ? 1 : 2), 0, number}));
  }
  ASSERT_TRUE(write_and_wait(*store, records).ok());
  store->append({{.job = JobId(2), .name = "loss", .step = 1, .at = {}, .value = 1}});
  ASSERT_TRUE(write_and_wait(*store, {}).ok());
  store.reset();  // everything is written
  store = std::move(Store::open(folder.path())).value();
  const auto space = read_space(folder.path());
  ASSERT_TRUE(space.ok()) << to_string(space.error());
  const auto rounds = std::ranges::find(space->tables, "rounds", &TableSpace::name);
  ASSERT_NE(rounds, space->tables.end());
  EXPECT_EQ(rounds->rows, 40);
  EXPECT_GT(rounds->bytes, Bytes(4096));
  EXPECT_EQ(space->history.at(JobId(1)).count(), rounds->bytes.count() * 3 / 4);
  EXPECT_EQ(space->history.at(JobId(2)).count(), rounds->bytes.count() / 4);
  EXPECT_GT(space->series.at(JobId(2)), Bytes());
  EXPECT_FALSE(space->series.contains(JobId(1)));
  EXPECT_TRUE(std::ranges::is_sorted(space->tables, std::greater<>(), &TableSpace::bytes));
}

}  // namespace
}  // namespace shoal::coordinator
