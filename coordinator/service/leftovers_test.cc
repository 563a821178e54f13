#include "coordinator/service/leftovers.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "coordinator/service/checkpoint_files.h"
#include "coordinator/store/manifest.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LeftoversTest : public testing::Test {
 protected:
  LeftoversTest()
      : store_(std::move(Store::open(folder_.path()).value())),
        files_(std::move(CheckpointFiles::open(folder_.path() + "/checkpoints").value())) {}

  // Its files on disk, as they are when its record is stored.
  CheckpointRecord stored(std::uint64_t id) {
    CheckpointRecord record = random_.checkpoint(id);
    record.state = CheckpointState::kStored;
    record.key = {JobId(3), 1, 40};
    record.step = Steps(2000), record.tokens = Tokens(128'000), record.next_sequence = 8000;
    record.parts = {{.writer = ReplicaId(1),
                     .state = CheckpointState::kStored,
                     .files = {{"model.bin", Bytes(7), sha256_of("weights")}}}};
    put(record.id, "weights");
    EXPECT_TRUE(files_->describe(record).ok());
    return record;
  }
  void put(CheckpointId id, const std::string& text) {
    std::filesystem::create_directories(files_->folder(id));
    std::ofstream(files_->folder(id) + "/model.bin") << text;
  }
  void record(CheckpointRecord row, CheckpointState state) {
    row.state = row.parts[0].state = state;
    EXPECT_TRUE(write_and_wait(*store_, {row}).ok());
  }
  // That of the only one that is not whole; empty: none is.
  std::string detail() const {
    const auto found = left().found;
    const bool damaged = found.size() == 1 && found[0].state == CheckpointState::kFailed;
    return damaged ? found[0].detail : std::string();
  }
  Leftovers left() const { return look_through(*files_, *store_).value(); }

  TemporaryFolder folder_;
  RandomRecords random_{5};
  std::unique_ptr<Store> store_;
  std::unique_ptr<CheckpointFiles> files_;
};

TEST_F(LeftoversTest, WhatTheTablesDoNotKnowIsFoundAndKept) {
  const CheckpointRecord newer = stored(9);
  EXPECT_THAT(left().found, ElementsAre(newer));
  EXPECT_THAT(left().keep, ElementsAre(CheckpointId(9)));
}

TEST_F(LeftoversTest, WhatTheyTakeForUnfinishedIsFound) {
  const CheckpointRecord newer = stored(9);
  record(newer, CheckpointState::kUploading);
  EXPECT_THAT(left().found, ElementsAre(newer));
}

TEST_F(LeftoversTest, WhatTheyCallStoredNeedsNoLook) {
  record(stored(9), CheckpointState::kStored);
  put(CheckpointId(9), "not even read");
  EXPECT_THAT(left().found, IsEmpty());
  EXPECT_THAT(left().keep, ElementsAre(CheckpointId(9)));
}

TEST_F(LeftoversTest, WhatWasDeletedGoes) {
  record(stored(9), CheckpointState::kDeleted);
  EXPECT_THAT(left().found, IsEmpty());
  EXPECT_THAT(left().keep, IsEmpty());
}

TEST_F(LeftoversTest, WhatWasSetAsideIsKept) {
  CheckpointRecord row = stored(9);
  row.state = CheckpointState::kFailed;
  EXPECT_TRUE(write_and_wait(*store_, {row}).ok());
  EXPECT_THAT(left().found, IsEmpty());
  EXPECT_THAT(left().keep, ElementsAre(CheckpointId(9)));
}

TEST_F(LeftoversTest, AFlippedBitIsFoundOutAndDeletesNothing) {
  stored(9);
  put(CheckpointId(9), "weightz");
  EXPECT_THAT(detail(), AllOf(HasSubstr("another SHA-256"), HasSubstr("ckpt_9/model.bin")));
  put(CheckpointId(9), "weights and more");
  EXPECT_THAT(detail(), HasSubstr("another size"));
  EXPECT_THAT(left().keep, ElementsAre(CheckpointId(9)));
  ASSERT_TRUE(files_->prune(left().keep).ok());
  EXPECT_TRUE(std::filesystem::exists(files_->folder(CheckpointId(9)) + "/model.bin"));
}

TEST_F(LeftoversTest, WithoutAManifestNobodyKnowsWhatItIs) {
  put(CheckpointId(9), "weights");
  EXPECT_THAT(detail(), HasSubstr("ckpt_9/manifest.json"));
  EXPECT_THAT(left().keep, ElementsAre(CheckpointId(9)));
}

TEST_F(LeftoversTest, TheManifestOfAnotherCheckpointIsNone) {
  const CheckpointRecord one = stored(9);
  put(CheckpointId(10), "weights");
  std::filesystem::copy(files_->folder(one.id) + "/" + kManifestFile,
                        files_->folder(CheckpointId(10)) + "/" + kManifestFile);
  const auto found = left().found;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], one);
  EXPECT_EQ(found[1].state, CheckpointState::kFailed);
  EXPECT_THAT(found[1].detail, HasSubstr("of another checkpoint"));
}

TEST_F(LeftoversTest, PartsOfUnknownOnesGo) {
  const FileEntry file{"a", Bytes(3), sha256_of("one")};
  ASSERT_TRUE((*files_->begin(CheckpointId(9), 0, 2, {file}))
                  ->write(std::as_bytes(std::span("on", 2)))
                  .ok());
  EXPECT_THAT(left().keep, IsEmpty());
}

}  // namespace
}  // namespace shoal::coordinator
