// One connection: the settings that make a commit durable, errors that name the file and the way
// out, statements that are used again, and reads that take too long.
#include "coordinator/store/sqlite.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

class SqliteTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name = "one.db") const { return folder_.path() + "/" + name; }
  std::unique_ptr<Database> open(OpenMode mode = OpenMode::kReadWrite,
                                 Durability durability = Durability::kFull) {
    auto database = Database::open(path(), mode, durability);
    SHOAL_CHECK(database.ok(), database.ok() ? "" : to_string(database.error()));
    return std::move(database).value();
  }
  TemporaryFolder folder_;
};

// What synchronous=OFF loses when the power goes, no test of this process can see.
TEST_F(SqliteTest, AWriterIsAsDurableAsItWasAskedToBe) {
  EXPECT_EQ(*open()->integer("PRAGMA synchronous"), 2) << "FULL";
  const auto normal = open(OpenMode::kReadWrite, Durability::kNormal);
  EXPECT_EQ(*normal->integer("PRAGMA synchronous"), 1) << "NORMAL";
  EXPECT_EQ(*normal->integer("SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
  EXPECT_EQ(*normal->integer("PRAGMA foreign_keys"), 1);
}

TEST_F(SqliteTest, AReaderChangesNothing) {
  ASSERT_TRUE(open()->exec("CREATE TABLE t (a)").ok());
  const auto reader = open(OpenMode::kReadOnly);
  const Status refused = reader->exec("INSERT INTO t VALUES (1)");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_EQ(refused.error().field, path());
}

TEST_F(SqliteTest, AFileThatCannotBeOpenedIsNamed) {
  const std::string nowhere = path("nowhere/one.db");
  const auto missing = Database::open(nowhere, OpenMode::kReadWrite, Durability::kFull);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kPermissionDenied);
  EXPECT_EQ(missing.error().field, nowhere);
  EXPECT_NE(missing.error().remedy, "");
  std::ofstream(path("text.db")) << std::string(4096, 'x');
  const auto text = Database::open(path("text.db"), OpenMode::kReadWrite, Durability::kFull);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code, Code::kDataLoss);
  EXPECT_EQ(text.error().field, path("text.db"));
}

TEST_F(SqliteTest, ABadStatementIsQuoted) {
  const auto bad = open()->prepare("SELECT nothing FROM nowhere");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("SELECT nothing FROM nowhere"), std::string::npos);
  EXPECT_FALSE(open()->cached("SELECT nothing FROM nowhere").ok());
}

TEST_F(SqliteTest, AKeptStatementBeginsAnewWithoutItsOldValues) {
  const auto database = open();
  const std::string two_rows = "SELECT ?1 UNION ALL SELECT 7";
  Statement* first = *database->cached(two_rows);
  first->bind(1, std::int64_t{5});
  ASSERT_TRUE(*first->step());
  Statement* again = *database->cached(two_rows);  // the second row was never asked for
  EXPECT_EQ(again, first);
  ASSERT_TRUE(*again->step());
  EXPECT_TRUE(again->is_null(0));
  EXPECT_TRUE(std::isnan(again->real(0)));
  ASSERT_TRUE(*again->step());
  EXPECT_EQ(again->integer(0), 7);
  EXPECT_FALSE(*again->step());
}

TEST_F(SqliteTest, AReadThatTakesTooLongIsInterrupted) {
  ASSERT_TRUE(open()->exec("CREATE TABLE t (a)").ok());
  const auto reader = open(OpenMode::kReadOnly);
  reader->set_query_limit_ms(20);
  const std::string endless =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
  const Result<bool> row = (*reader->cached(endless))->step();
  ASSERT_FALSE(row.ok());
  EXPECT_EQ(row.error().code, Code::kDeadlineExceeded);
  const Result<bool> next = (*reader->cached("SELECT 1"))->step();
  EXPECT_TRUE(next.ok() && *next) << "the next one has its own time";
}

}  // namespace
}  // namespace shoal::coordinator
