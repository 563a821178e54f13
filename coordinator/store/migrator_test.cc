// Migrations: a fresh folder, a step with its backup, and every file that must be refused
// untouched.
#include "coordinator/store/migrator.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr Migration kFirst{1, "first",
                           "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (7);"};
constexpr Migration kSecond{2, "second", "ALTER TABLE a ADD COLUMN y INTEGER;"};
constexpr Migration kBroken{2, "broken", "INSERT INTO a VALUES (8); CREATE TABLE a (x INTEGER);"};

class MigratorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Database> open() {
    auto database =
        Database::open(folder_.path() + "/state.db", OpenMode::kReadWrite, Durability::kFull);
    SHOAL_CHECK(database.ok());
    return std::move(database).value();
  }
  Status migrate_to(std::vector<Migration> migrations) {
    return migrate(*open(), migrations, folder_.path() + "/state.pre");
  }
  TemporaryFolder folder_;
};

TEST_F(MigratorTest, EmbeddedMigrationsAreNumberedWithoutGaps) {
  int expected = 0;
  for (const Migration& migration : embedded_migrations()) EXPECT_EQ(migration.version, ++expected);
  EXPECT_GE(expected, 1);
}

TEST_F(MigratorTest, ASecondRunChangesNothing) {
  ASSERT_TRUE(migrate_to({kFirst}).ok());
  ASSERT_TRUE(migrate_to({kFirst}).ok());
  EXPECT_EQ(*open()->integer("SELECT count(*) FROM a"), 1);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/state.pre-0001.db"));
}

TEST_F(MigratorTest, AnExistingDatabaseIsBackedUpBeforeItChanges) {
  ASSERT_TRUE(migrate_to({kFirst}).ok());
  ASSERT_TRUE(migrate_to({kFirst, kSecond}).ok());
  EXPECT_EQ(*open()->integer("PRAGMA user_version"), 2);
  const auto backup =
      Database::open(folder_.path() + "/state.pre-0002.db", OpenMode::kReadOnly, Durability::kFull);
  ASSERT_TRUE(backup.ok());
  EXPECT_EQ(*(*backup)->integer("PRAGMA user_version"), 1);
  EXPECT_EQ(*(*backup)->integer("SELECT x FROM a"), 7);
}

TEST_F(MigratorTest, AFailedMigrationIsUndoneAsAWhole) {
  ASSERT_TRUE(migrate_to({kFirst}).ok());
  const Status failed = migrate_to({kFirst, kBroken});
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.error().message, HasSubstr("broken"));
  EXPECT_EQ(*open()->integer("SELECT count(*) FROM a"), 1);
  EXPECT_EQ(*open()->integer("PRAGMA user_version"), 1);
  EXPECT_TRUE(migrate_to({kFirst, kSecond}).ok());
}

TEST_F(MigratorTest, ANewerDatabaseIsRefusedNamingBothVersions) {
  ASSERT_TRUE(migrate_to({kFirst, kSecond}).ok());
  const Status refused = migrate_to({kFirst});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kIncompatible);
  EXPECT_THAT(refused.error().message, HasSubstr("schema version 2"));
  EXPECT_THAT(refused.error().message, HasSubstr("up to 1"));
  EXPECT_FALSE(refused.error().remedy.empty());
  EXPECT_EQ(*open()->integer("SELECT x FROM a"), 7);
}

TEST_F(MigratorTest, AnEditedMigrationIsRefused) {
  ASSERT_TRUE(migrate_to({kFirst}).ok());
  const Status refused =
      migrate_to({{1, "first", "CREATE TABLE a (x INTEGER, z INTEGER) STRICT;"}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kIncompatible);
}

TEST_F(MigratorTest, ADatabaseOfAnotherProgramIsRefused) {
  ASSERT_TRUE(open()->exec("CREATE TABLE bookmarks (url TEXT)").ok());
  const Status refused = migrate_to({kFirst});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kIncompatible);
}

}  // namespace
}  // namespace shoal::coordinator
