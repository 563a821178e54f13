// `shoal admin backup` and `restore-check`: a folder in use is copied, and the copy would start.
#include <filesystem>
#include <fstream>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "coordinator/store/backup.h"
#include "coordinator/store/sqlite_store.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void put_file(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

// A store with a job and a stored checkpoint of one file.
class BackupFolderTest : public testing::Test {
 protected:
  BackupFolderTest() : store_(std::move(Store::open(live_.path()).value())) {
    JobRecord job = random_.job(1);
    job.spec.name = "kjv";
    job.phase = JobPhase::kTraining;
    job.committed_round = 14;
    CheckpointRecord checkpoint = random_.checkpoint(3);
    checkpoint.state = CheckpointState::kStored;
    checkpoint.key.job = JobId(1);
    checkpoint.parts = {{.writer = ReplicaId(1), .state = CheckpointState::kStored}};
    checkpoint.parts[0].files = {{"model.bin", Bytes(7), sha256_of("weights")}};
    EXPECT_TRUE(write_and_wait(*store_, {random_.counters(), job, checkpoint}).ok());
    std::promise<Status> written;
    store_->write_files({FileRecord{sha256_of("shard"), Bytes(5), "ada", Instant{1}, true},
                         FileRecord{sha256_of("begun"), Bytes(5), "ada", Instant{1}}},
                        [&](Status status) { written.set_value(std::move(status)); });
    EXPECT_TRUE(written.get_future().get().ok());
    put_file(uploaded(live_.path()), "shard");
    put_file(live_.path() + "/checkpoints/ckpt_3/model.bin", "weights");
    put_file(live_.path() + "/ca.pem", "secret");
  }
  static std::string uploaded(const std::string& folder) {
    return folder + "/files/" + sha256_of("shard") + "/content";
  }
  std::string to() const { return copy_.path() + "/new"; }
  std::vector<std::string> problems() const { return check_backup(to()).value().problems; }

  TemporaryFolder live_, copy_;
  RandomRecords random_{7};
  std::unique_ptr<Store> store_;
};

TEST_F(BackupFolderTest, ACopyOfAFolderInUseWouldStart) {
  const auto report = back_up_folder(live_.path(), to());
  ASSERT_TRUE(report.ok()) << to_string(report.error());
  EXPECT_EQ(report->checkpoints, 1);
  EXPECT_EQ(report->files, 1) << "the one that is being uploaded is not copied";
  EXPECT_EQ(report->bytes, Bytes(7 + 5));
  const auto check = check_backup(to());
  ASSERT_TRUE(check.ok()) << to_string(check.error());
  EXPECT_THAT(check->problems, IsEmpty());
  EXPECT_THAT(check->jobs, ElementsAre("job_1 kjv training, round 14, newest checkpoint ckpt_3"));
  EXPECT_THAT(problems(), IsEmpty()) << "looking at it leaves nothing behind";
  auto restored = Store::open(to());
  ASSERT_TRUE(restored.ok()) << to_string(restored.error());
  EXPECT_EQ((*restored)->load()->jobs, store_->load()->jobs);
}

TEST_F(BackupFolderTest, ACopySaysThatItIsOne) {
  CounterRecord counters = random_.counters();
  counters.backup_at = {};
  ASSERT_TRUE(write_and_wait(*store_, {counters}).ok());
  ASSERT_TRUE(back_up_folder(live_.path(), to()).ok());
  EXPECT_FALSE(std::filesystem::exists(to() + "/state.db-wal"));
  EXPECT_EQ(store_->load()->counters, counters) << "not the one that was copied";
  auto restored = Store::open(to());
  ASSERT_TRUE(restored.ok()) << to_string(restored.error());
  EXPECT_GT((*restored)->load()->counters.backup_at.ns, 1'600'000'000'000'000'000);
}

TEST_F(BackupFolderTest, EveryDamageIsNamed) {
  ASSERT_TRUE(back_up_folder(live_.path(), to()).ok());
  const std::string file = to() + "/checkpoints/ckpt_3/model.bin";
  put_file(file, "weighty");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("is damaged")));
  put_file(file, "w");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("has 1 bytes, not 7")));
  std::filesystem::remove(file);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("is missing")));
  put_file(file, "weights");
  put_file(uploaded(to()), "shar?");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("is damaged")));
  std::filesystem::remove(uploaded(to()));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr(sha256_of("shard") + "/content is missing")));
  put_file(uploaded(to()), "shard");
  put_file(to() + "/state.db-wal", "");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("delete it")));
  std::filesystem::remove(to() + "/state.db-wal");
  std::filesystem::permissions(to() + "/ca.pem", std::filesystem::perms(0644));
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("chmod 600")));
  std::filesystem::remove(to() + "/ca.pem");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("no agent would be believed")));
}

TEST_F(BackupFolderTest, ADatabaseThatIsNoneIsRefused) {
  EXPECT_THAT(to_string(check_backup(copy_.path()).error()), HasSubstr("no state.db"));
  put_file(copy_.path() + "/state.db", "not a database, but long enough to be looked at");
  EXPECT_FALSE(check_backup(copy_.path()).ok());
}

TEST_F(BackupFolderTest, AFolderThatIsInUseIsNotWrittenInto) {
  put_file(to() + "/other", "");
  const auto report = back_up_folder(live_.path(), to());
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().field, "--to");
  EXPECT_EQ(back_up_folder(copy_.path() + "/nowhere", copy_.path() + "/b").error().field,
            "--data-dir");
}

TEST_F(BackupFolderTest, ACheckpointWithoutItsFilesIsSaid) {
  std::filesystem::remove_all(live_.path() + "/checkpoints/ckpt_3");
  const auto report = back_up_folder(live_.path(), to());
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message, HasSubstr("ckpt_3, which state.db names as stored, is not"));
}

TEST_F(BackupFolderTest, AnUploadedFileThatIsGoneIsSaid) {
  std::filesystem::remove_all(live_.path() + "/files");
  const auto report = back_up_folder(live_.path(), to());
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message, HasSubstr("the uploaded file " + sha256_of("shard")));
}

}  // namespace
}  // namespace shoal::coordinator
