#include "coordinator/service/store_check.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "coordinator/core/coordinator.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

TEST(StoreCheck, GivesTheDigestThatACoordinatorStartsWith) {
  TemporaryFolder folder;
  std::string digest;
  {
    auto store = Store::open(folder.path());
    ASSERT_TRUE(store.ok());
    RandomRecords random(7);
    ASSERT_TRUE(write_and_wait(**store, {random.counters(), random.agent(1)}).ok());
    const auto snapshot = (*store)->load();
    ASSERT_TRUE(snapshot.ok());
    digest = to_hex(Coordinator(Options{}, *snapshot).digest());
  }
  const auto said = check_store(folder.path(), {});
  ASSERT_TRUE(said.ok()) << to_string(said.error());
  const auto json = nlohmann::json::parse(*said);
  EXPECT_EQ(json["integrity"], "ok");
  EXPECT_EQ(json["digest"], digest);
  EXPECT_EQ(json["agents"], 1);
}

TEST(StoreCheck, AFolderWithoutTablesIsRefusedAndStaysAsItIs) {
  TemporaryFolder folder;
  const auto said = check_store(folder.path(), {});
  ASSERT_FALSE(said.ok());
  EXPECT_EQ(said.error().code, Code::kNotFound);
  EXPECT_EQ(said.error().field, "--data-dir");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(StoreCheck, DamageIsFound) {
  TemporaryFolder folder;
  {
    auto store = Store::open(folder.path());
    ASSERT_TRUE(store.ok());
  }
  const std::string file = folder.path() + "/state.db";
  std::filesystem::remove(file + "-wal");
  std::fstream tables(file, std::ios::in | std::ios::out | std::ios::binary);
  tables.seekp(4096 + 8);  // the second page, past the kind of its b-tree
  tables << std::string(2048, '\xff');
  tables.close();
  const auto said = check_store(folder.path(), {});
  ASSERT_FALSE(said.ok());
  EXPECT_FALSE(said.error().remedy.empty());
}

}  // namespace
}  // namespace shoal::coordinator
