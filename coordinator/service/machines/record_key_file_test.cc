#include "coordinator/service/machines/record_key_file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr Instant kMade{1'000}, kLater{5'000};

TEST(RecordKeyFile, SurvivesARestart) {
  const TemporaryFolder folder;
  const auto first = RecordKeyFile::open(folder.path(), "cluster", {}, kMade);
  ASSERT_TRUE(first) << to_string(first.error());
  ASSERT_EQ(first->keys().size(), 1u);
  EXPECT_EQ(first->keys()[0].id, "cluster/1");
  const auto again = RecordKeyFile::open(folder.path(), "cluster", {}, kLater);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->keys()[0].secret, first->keys()[0].secret);
  EXPECT_EQ(again->keys()[0].made_at, kMade);
}

TEST(RecordKeyFile, ARotationKeepsTheOldKeyWhileAReplicaMayNeedIt) {
  const TemporaryFolder folder;
  auto file = RecordKeyFile::open(folder.path(), "cluster", {}, kMade);
  ASSERT_TRUE(file->rotate(kLater).ok());
  EXPECT_EQ(file->keys().back().id, "cluster/2");
  Snapshot snapshot;
  snapshot.jobs.emplace_back().id = JobId(1);
  ReplicaRecord& replica = snapshot.replicas.emplace_back();
  replica.id = ReplicaId(1), replica.job = JobId(1), replica.held_round = 7;
  replica.state = ReplicaState::kServing;
  snapshot.jobs[0].committed_round = 7;
  snapshot.jobs[0].committed_at = kMade;
  EXPECT_EQ(needed_keys(file->keys(), snapshot).size(), 2u) << "it was committed before";
  snapshot.jobs[0].committed_at = kLater + seconds(1);
  snapshot.replicas[0].held_round = 6;
  EXPECT_EQ(needed_keys(file->keys(), snapshot).size(), 2u) << "it has not taken the outer step";
  snapshot.replicas[0].held_round = 7;
  EXPECT_EQ(needed_keys(file->keys(), snapshot).size(), 1u);
  const auto opened = RecordKeyFile::open(folder.path(), "cluster", snapshot, kLater);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->keys().back().id, "cluster/2");
}

TEST(RecordKeyFile, ADamagedFileIsRefusedByName) {
  const TemporaryFolder folder;
  ASSERT_TRUE(RecordKeyFile::open(folder.path(), "cluster", {}, kMade));
  const std::string path = folder.path() + kRecordKeyFile;
  for (const char* content : {"", "{}", "{\"keys\":[]}", "{\"keys\":[{\"id\":\"cluster/1\"}]}"}) {
    std::ofstream(path) << content;
    const auto opened = RecordKeyFile::open(folder.path(), "cluster", {}, kMade);
    ASSERT_FALSE(opened) << content;
    EXPECT_THAT(to_string(opened.error()), HasSubstr(path));
  }
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  EXPECT_EQ(RecordKeyFile::open(folder.path(), "cluster", {}, kMade).error().code,
            Code::kPermissionDenied);
}

}  // namespace
}  // namespace shoal::coordinator
