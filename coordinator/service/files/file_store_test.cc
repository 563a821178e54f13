#include "coordinator/service/files/file_store.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "base/sha256.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

const ObjectUser kAda{.name = "ada"}, kBob{.name = "bob"};

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class FileStoreTest : public ::testing::Test {
 protected:
  FileStoreTest() { start(); }

  void start() {
    files_.reset();
    store_.reset();
    store_ = std::move(Store::open(folder_.path())).value();
    FileStoreOptions options{.folder = folder_.path() + "/files",
                             .each_owner = quota_,
                             .room = [this](const std::string&) { return Result<Bytes>(room_); },
                             .clock = [this] { return now_; }};
    files_ = std::move(FileStore::open(std::move(options), *store_)).value();
  }

  std::string put(const std::string& text, const std::string& owner = "ada") {
    const std::string sha256 = sha256_of(text);
    const auto begun =
        files_->begin(sha256, Bytes(static_cast<std::int64_t>(text.size())), {owner});
    EXPECT_TRUE(begun.ok()) << to_string(begun.error());
    if (begun->record.complete) return sha256;
    const auto written =
        files_->write(sha256, begun->received,
                      bytes_of(text).subspan(static_cast<std::size_t>(begun->received.n)), {owner});
    EXPECT_TRUE(written.ok()) << to_string(written.error());
    EXPECT_TRUE(written->record.complete);
    return sha256;
  }

  // A dataset of one shard, whose manifest is returned.
  std::string put_manifest(const std::string& shard_text, const std::string& owner = "ada") {
    const std::string shard = put(shard_text, owner), hashes = put(std::string(32, 'h'), owner);
    const data::Manifest manifest{
        Tokenizer::kBytes,
        data::kChunkBytesMin,
        {{"a.txt", static_cast<std::int64_t>(shard_text.size()), shard, hashes, "", 'z', 0}}};
    return put(data::to_text(manifest), owner);
  }

  std::string path_of(const std::string& sha256) const {
    return files_->folder_of(sha256) + "/" + FileStore::kContent;
  }

  TemporaryFolder folder_;
  Bytes quota_, room_ = mebibytes(1024);
  Instant now_{1'000};
  std::unique_ptr<Store> store_;
  std::unique_ptr<FileStore> files_;
};

TEST_F(FileStoreTest, AFileComesInPiecesAndIsThereWithTheLast) {
  const std::string text = "the whole of a file", sha256 = sha256_of(text);
  const Bytes size(static_cast<std::int64_t>(text.size()));
  EXPECT_EQ(files_->begin(sha256, size, kAda)->received, Bytes(0));
  EXPECT_EQ(files_->write(sha256, Bytes(0), bytes_of(text).first(9), kAda)->received, Bytes(9));
  EXPECT_FALSE(files_->read_whole(sha256).ok()) << "before all of it is here";
  const auto done = files_->write(sha256, Bytes(9), bytes_of(text).subspan(9), kAda);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_TRUE(done->record.complete);
  EXPECT_EQ(done->record.owner, "ada");
  EXPECT_EQ(*files_->read_whole(sha256), text);
  EXPECT_TRUE(files_->verify(sha256).ok());
  EXPECT_TRUE(files_->begin(sha256, size, kAda)->record.complete) << "nothing is sent twice";
}

TEST_F(FileStoreTest, AnUploadGoesOnWhereItWasAfterARestart) {
  const std::string text(100'000, 'x'), sha256 = sha256_of(text);
  ASSERT_TRUE(files_->begin(sha256, Bytes(100'000), kAda).ok());
  ASSERT_TRUE(files_->write(sha256, Bytes(0), bytes_of(text).first(60'000), kAda).ok());
  start();
  const auto begun = files_->begin(sha256, Bytes(100'000), kAda);
  ASSERT_TRUE(begun.ok()) << to_string(begun.error());
  EXPECT_EQ(begun->received, Bytes(60'000));
  ASSERT_TRUE(files_->write(sha256, Bytes(60'000), bytes_of(text).subspan(60'000), kAda).ok());
  start();
  EXPECT_EQ(*files_->read_whole(sha256), text);
}

TEST_F(FileStoreTest, APieceElsewhereIsRefusedWithThePlaceToGoOn) {
  const std::string text = "0123456789", sha256 = sha256_of(text);
  ASSERT_TRUE(files_->begin(sha256, Bytes(10), kAda).ok());
  ASSERT_TRUE(files_->write(sha256, Bytes(0), bytes_of(text).first(4), kAda).ok());
  for (const std::int64_t from : {0, 3, 5}) {
    const auto refused = files_->write(sha256, Bytes(from), bytes_of(text).first(2), kAda);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Code::kConflict);
    EXPECT_THAT(refused.error().message, HasSubstr("the upload is at byte 4"));
  }
  EXPECT_EQ(files_->write(sha256, Bytes(4), bytes_of("4567890123"), kAda).error().code,
            Code::kInvalidArgument);
  EXPECT_TRUE(files_->write(sha256, Bytes(4), bytes_of(text).subspan(4), kAda).ok());
}

TEST_F(FileStoreTest, AnotherContentBeginsAnew) {
  const std::string sha256 = sha256_of("what was announced");
  ASSERT_TRUE(files_->begin(sha256, Bytes(5), kAda).ok());
  const auto refused = files_->write(sha256, Bytes(0), bytes_of("other"), kAda);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kValidation);
  EXPECT_EQ(files_->begin(sha256, Bytes(5), kAda)->received, Bytes(0));
  EXPECT_FALSE(files_->find(sha256)->record.complete);
}

TEST_F(FileStoreTest, WhatCannotBeAnnounced) {
  const std::string sha256 = sha256_of("x");
  EXPECT_EQ(files_->begin("../../etc/passwd", Bytes(1), kAda).error().field, "sha256");
  EXPECT_EQ(files_->begin(sha256, Bytes(0), kAda).error().field, "size");
  ASSERT_TRUE(files_->begin(sha256, Bytes(1), kAda).ok());
  EXPECT_EQ(files_->begin(sha256, Bytes(2), kAda).error().code, Code::kConflict);
  EXPECT_EQ(files_->write(sha256_of("y"), Bytes(0), bytes_of("y"), kAda).error().code,
            Code::kNotFound);
}

TEST_F(FileStoreTest, TheQuotaIsOfEachOwner) {
  quota_ = Bytes(10);
  start();
  put("123456");
  const auto refused = files_->begin(sha256_of("12345"), Bytes(5), kAda);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kValidation);
  EXPECT_THAT(refused.error().message, HasSubstr("ada keeps"));
  put("12345", "bob");
}

TEST_F(FileStoreTest, TheTablesKeepTheirRoom) {
  room_ = kRoomForTables + Bytes(4);
  const auto refused = files_->begin(sha256_of("12345"), Bytes(5), kAda);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  put("1234");
}

TEST_F(FileStoreTest, AChangedFileIsNoticed) {
  const std::string sha256 = put("as it was");
  std::ofstream(path_of(sha256)) << "as it is!";
  EXPECT_EQ(files_->verify(sha256).error().code, Code::kDataLoss);
  EXPECT_EQ(files_->read_whole(sha256).error().code, Code::kDataLoss);
}

// A crash between row and file, and a backup of the tables without the files.
TEST_F(FileStoreTest, FoldersWithoutARowGoAndRowsWithoutAFolderAreUploadedAgain) {
  const std::string sha256 = put("content"), stray = std::string(64, 'e');
  fs::create_directories(folder_.path() + "/files/" + stray);
  fs::remove_all(files_->folder_of(sha256));
  start();
  EXPECT_FALSE(fs::exists(folder_.path() + "/files/" + stray));
  EXPECT_FALSE(files_->verify(sha256).ok());
  put("content");
  EXPECT_TRUE(files_->verify(sha256).ok());
}

TEST_F(FileStoreTest, AnUploadThatNobodyGoesOnWithEndsAfterAWeek) {
  ASSERT_TRUE(files_->begin(sha256_of("x"), Bytes(1), kAda).ok());
  const std::string kept = put("kept");
  now_ = now_ + FileStore::kUploadLife + seconds(1);
  start();
  EXPECT_FALSE(files_->find(sha256_of("x")));
  EXPECT_TRUE(files_->find(kept));
}

TEST_F(FileStoreTest, ADatasetNeedsAllThatItsManifestLists) {
  const std::string manifest = put_manifest("some text");
  const auto added = files_->add_dataset("books", manifest, kAda);
  ASSERT_TRUE(added.ok()) << to_string(added.error());
  EXPECT_TRUE(files_->add_dataset("books", manifest, kAda).ok()) << "again";
  EXPECT_EQ(files_->add_dataset("Books", manifest, kAda).error().field, "name");
  EXPECT_EQ(files_->add_dataset("none", sha256_of("none"), kAda).error().code, Code::kNotFound);
  EXPECT_EQ(files_->add_dataset("text", put("no manifest"), kAda).error().code, Code::kValidation);
  const std::string other = put_manifest("another text");
  EXPECT_EQ(
      to_string(files_->add_dataset("books", other, kAda).error()),
      "name: there is a dataset books with another content (choose another name, or remove it "
      "with `shoal dataset rm books`)");
  data::Manifest missing = **files_->manifest(manifest);
  missing.shards[0].sha256 = std::string(64, '0');
  const auto refused = files_->add_dataset("other", put(data::to_text(missing)), kAda);
  EXPECT_THAT(to_string(refused.error()), HasSubstr("dataset other, shard a.txt: the content 000"));
  start();
  EXPECT_EQ(files_->dataset("books")->manifest, manifest);
}

TEST_F(FileStoreTest, ADatasetGoesWithWhatNothingElseUses) {
  const std::string one = put_manifest("shared text");
  data::Manifest list = **files_->manifest(one);
  list.shards[0].name = "renamed.txt";
  const std::string two = put(data::to_text(list));
  ASSERT_TRUE(files_->add_dataset("one", one, kAda).ok());
  ASSERT_TRUE(files_->add_dataset("two", two, kAda).ok());
  const std::string shard = list.shards[0].sha256;
  EXPECT_EQ(files_->remove(shard, {}).error().code, Code::kConflict);
  const auto busy = files_->remove_dataset("one", {{one, "tiny"}});
  EXPECT_THAT(busy.error().message, HasSubstr("job tiny trains on dataset one"));
  ASSERT_TRUE(files_->remove_dataset("one", {}).ok());
  EXPECT_FALSE(files_->find(one));
  EXPECT_TRUE(files_->find(shard)) << "of the other one";
  ASSERT_TRUE(files_->remove_dataset("two", {}).ok());
  EXPECT_THAT(files_->files(), IsEmpty());
  EXPECT_FALSE(fs::exists(files_->folder_of(shard)));
  EXPECT_EQ(files_->remove_dataset("two", {}).error().code, Code::kNotFound);
}

TEST_F(FileStoreTest, CodeOfAJobStaysUntilTheJobHasEnded) {
  const std::string code = put("a bundle");
  const auto refused = files_->remove(code, {{code, "tiny"}});
  EXPECT_EQ(refused.error().code, Code::kConflict);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("is used by job tiny"));
  EXPECT_EQ(files_->uses({{code, "tiny"}}),
            (std::map<std::string, std::string>{{code, "job tiny"}}));
  EXPECT_TRUE(files_->remove(code, {}).ok());
  EXPECT_THAT(files_->files(), SizeIs(0));
}

TEST_F(FileStoreTest, WhoKnowsOnlyTheHashOfAFileMayNotReadIt) {
  const std::string text = "hers alone", sha256 = put(text);
  EXPECT_TRUE(files_->may_read(kAda, sha256));
  EXPECT_FALSE(files_->may_read(kBob, sha256));
  const auto begun = files_->begin(sha256, Bytes(10), kBob);
  ASSERT_TRUE(begun.ok()) << to_string(begun.error());
  EXPECT_FALSE(begun->record.complete);
  EXPECT_EQ(begun->received, Bytes(0));
  EXPECT_EQ(files_->write(sha256, Bytes(0), bytes_of("his guess!"), kBob).error().code,
            Code::kValidation);
  EXPECT_FALSE(files_->may_read(kBob, sha256));
  EXPECT_EQ(files_->write(sha256, Bytes(0), bytes_of(text), {"eve"}).error().code, Code::kNotFound)
      << "eve did not announce it";
  EXPECT_EQ(*files_->read_whole(sha256), text);
  EXPECT_TRUE(files_->may_read({.name = "root", .uploads = Reach::kAny}, sha256));
  EXPECT_FALSE(files_->may_read({.name = "ada", .uploads = Reach::kNone}, sha256));
}

TEST_F(FileStoreTest, WhoSendsTheWholeContentOwnsItToo) {
  const std::string text = "they both have it", sha256 = put(text);
  EXPECT_EQ(put(text, "bob"), sha256);
  EXPECT_THAT(files_->owners(sha256), ::testing::ElementsAre("ada", "bob"));
  EXPECT_TRUE(
      files_->begin(sha256, Bytes(static_cast<std::int64_t>(text.size())), kBob)->record.complete);
  start();
  EXPECT_THAT(files_->owners(sha256), ::testing::ElementsAre("ada", "bob")) << "after a restart";
  EXPECT_EQ(files_->find(sha256)->record.owner, "ada");
  ASSERT_TRUE(files_->remove(sha256, {}).ok());
  start();
  EXPECT_EQ(put(text), sha256);
  EXPECT_THAT(files_->owners(sha256), ::testing::ElementsAre("ada")) << "removed with the file";
}

TEST_F(FileStoreTest, WhoAnnouncesAFileFirstDoesNotOwnWhatAnotherPersonSends) {
  const std::string text = "hers, announced by him", sha256 = sha256_of(text);
  const Bytes size(static_cast<std::int64_t>(text.size()));
  ASSERT_TRUE(files_->begin(sha256, size, kBob).ok());
  EXPECT_EQ(put(text), sha256);
  EXPECT_THAT(files_->owners(sha256), ::testing::ElementsAre("ada"));
  EXPECT_FALSE(files_->may_read(kBob, sha256));
  ASSERT_TRUE(files_->write(sha256, Bytes(0), bytes_of(text), kBob).ok()) << "he can prove it";
  EXPECT_TRUE(files_->may_read(kBob, sha256));
}

TEST_F(FileStoreTest, ProofsCountAndAreBounded) {
  const std::string text(1'000, 'x'), sha256 = put(text);
  for (std::size_t i = 0; i <= FileStore::kProofsMax; ++i) {
    ++now_.ns;
    ASSERT_TRUE(files_->begin(sha256, Bytes(1'000), {"p" + std::to_string(i)}).ok());
  }
  EXPECT_EQ(files_->write(sha256, Bytes(0), bytes_of(text), {"p0"}).error().code, Code::kNotFound)
      << "the least recently used one went";
  EXPECT_TRUE(files_->write(sha256, Bytes(0), bytes_of(text), {"p1"}).ok());
  const auto entries = [&] {
    return std::distance(fs::directory_iterator(folder_.path() + "/files"), {});
  };
  EXPECT_GT(entries(), 60);
  start();
  EXPECT_THAT(files_->owners(sha256), ::testing::ElementsAre("ada", "p1"));
  EXPECT_EQ(entries(), 3) << "the file, its list, its owners";
}

TEST_F(FileStoreTest, ADatasetOfFilesOfAnotherPersonIsRefusedLikeOneOfFilesThatAreNotHere) {
  const std::string theirs = put_manifest("some text");
  ASSERT_TRUE(files_->add_dataset("books", theirs, kAda).ok());
  EXPECT_EQ(files_->add_dataset("mine", theirs, kBob).error().code, Code::kNotFound);
  // A manifest of his own that lists her shard.
  data::Manifest manifest = **files_->manifest(theirs);
  manifest.shards[0].name = "b.txt";
  const std::string his = put(data::to_text(manifest), "bob");
  EXPECT_THAT(to_string(files_->add_dataset("mine", his, kBob).error()), HasSubstr("is not here"));
  EXPECT_FALSE(files_->may_read_dataset(kBob, his));
  put("some text", "bob"), put(std::string(32, 'h'), "bob");
  EXPECT_TRUE(files_->add_dataset("mine", his, kBob).ok());
  EXPECT_TRUE(files_->may_read_dataset(kBob, his));
  EXPECT_FALSE(files_->may_read_dataset(kBob, theirs)) << "whose manifest he did not send";
}

}  // namespace
}  // namespace shoal::coordinator
