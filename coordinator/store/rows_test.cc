// The tables of migrations/ are written by hand. Their columns are those that the records ask for.
#include "coordinator/store/rows.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "coordinator/store/migrator.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

// Columns that SQLite fills by itself are left out, as is the key of a table with one row.
std::vector<std::pair<std::string, std::string>> columns_in(Database& database,
                                                            const Table& table) {
  auto rows = database.prepare(std::string("SELECT name, type FROM pragma_table_xinfo('") +
                               table.name + "') WHERE hidden = 0 ORDER BY name");
  SHOAL_CHECK(rows.ok());
  std::vector<std::pair<std::string, std::string>> columns;
  while (*rows->step()) {
    if (table.name == std::string("counters") && rows->text(0) == "id") continue;
    columns.emplace_back(rows->text(0), rows->text(1));
  }
  return columns;
}

TEST(Rows, TheMigrationsMakeTheColumnsOfTheRecords) {
  const TemporaryFolder folder;
  auto database =
      Database::open(folder.path() + "/state.db", OpenMode::kReadWrite, Durability::kFull);
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(migrate(**database, embedded_migrations(), folder.path() + "/state.pre").ok());
  ASSERT_EQ(all_tables().size(), std::variant_size_v<Record> - 1 + std::variant_size_v<MachineRow> +
                                     std::variant_size_v<PeopleRow> + std::variant_size_v<FileRow> -
                                     2);
  for (const Table& table : all_tables()) {
    std::vector<std::pair<std::string, std::string>> wanted;
    for (const Column& column : table.columns) wanted.emplace_back(column.name, column.type);
    std::ranges::sort(wanted);
    EXPECT_EQ(columns_in(**database, table), wanted) << table.name;
  }
}

}  // namespace
}  // namespace shoal::coordinator
