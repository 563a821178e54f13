// What the writer writes: names, roles, metadata and digests of the files of a part.
#include "replica/checkpoint/part_writer.h"

#include <filesystem>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "job/job_rules.h"
#include "threads/file_content.h"
#include "transfer/file_writer.h"

namespace shoal::replica {
namespace {

namespace fs = std::filesystem;

class PartWriterTest : public testing::Test {
 protected:
  PartWriterTest() {
    std::string pattern = (fs::temp_directory_path() / "shoal-writer-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    spec_.name = "job";
    spec_.data.train = "/data/text";
    spec_ = with_derived_fields(spec_);
  }
  ~PartWriterTest() override { fs::remove_all(folder_); }

  CheckpointContent content() {
    return {spec_,
            {{0, 6}},
            0,
            {JobId(3), 1, 4},
            Steps(40),
            anchor_,
            {{"momentum", momentum_}, {"adam_v", second_}},
            m_,
            v_,
            39};
  }
  std::string text(const std::string& name) { return file_content(folder_ / name).value(); }

  fs::path folder_;
  JobSpec spec_ = default_spec(SyncAlgorithm::kDiloco);
  const std::vector<float> anchor_{1, 2, 3}, momentum_{4, 5, 6}, second_{7, 8, 9}, m_{1}, v_{2};
  const std::vector<TensorShape> weights_{{"a", {2}, "F32"}, {"b", {}, "F32"}};
};

TEST_F(PartWriterTest, ListsEveryFileWithItsRoleSizeAndDigest) {
  const std::vector<float> mean{1};
  const auto buffers = write_object({folder_, 0, 1, kRoleBuffers, "", {{"mean", {1}, mean}}});
  ASSERT_TRUE(buffers.ok()) << to_string(buffers.error());
  const auto part =
      write_part(folder_, content(), {weights_, {{"config.json", "{}"}}, {*buffers}, "bytes"});
  ASSERT_TRUE(part.ok()) << to_string(part.error());
  EXPECT_EQ(part->anchor, digest_of(anchor_));
  std::map<std::string, std::string> roles;
  for (const FileEntry& file : part->files) {
    EXPECT_EQ(file.size, Bytes(std::ssize(text(file.path)))) << file.path;
    EXPECT_EQ(file.sha256, sha256_of(text(file.path))) << file.path;
    roles[file.path] = file.role;
  }
  EXPECT_EQ(roles, (std::map<std::string, std::string>{{"buffers.safetensors", "buffers"},
                                                       {"config.json", "description"},
                                                       {"model.safetensors", "weights"},
                                                       {"optimizer.safetensors", "inner/optimizer"},
                                                       {"outer_adam_v.safetensors", "outer/adam_v"},
                                                       {"outer.safetensors", "outer/momentum"},
                                                       {"part-00.json", "part"}}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), std::ssize(part->files));
  const auto head = read_part(folder_, 0);
  ASSERT_TRUE(head.ok()) << to_string(head.error());
  EXPECT_EQ(files_of(folder_, 0, *head), head->files);
}

TEST_F(PartWriterTest, EveryFileOfVectorsNamesItsRoundAndDigests) {
  ASSERT_TRUE(write_part(folder_, content(), {weights_}).ok());
  const auto metadata = [&](const char* name) {
    return SafetensorsFile::open(folder_ / name).value().metadata();
  };
  EXPECT_EQ(metadata("model.safetensors"),
            (TensorMetadata{
                {"format", "pt"}, {"anchor", to_hex(digest_of(anchor_))}, {"round", "job_3/1/4"}}));
  EXPECT_EQ(metadata("outer_adam_v.safetensors"),
            (TensorMetadata{{"outer_adam_v", to_hex(digest_of(second_))}, {"round", "job_3/1/4"}}));
  EXPECT_EQ(metadata("optimizer.safetensors").at("adam_step"), "39");
}

TEST_F(PartWriterTest, WithoutMomentsOrOuterVectorsThereAreNoSuchFiles) {
  CheckpointContent bare = content();
  bare.outer.clear();
  bare.adam_m = bare.adam_v = {};
  const auto part = write_part(folder_, bare, {weights_});
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->files.size(), 2u);
}

TEST_F(PartWriterTest, AnObjectWithoutTensorsIsItsDocument) {
  const auto written = write_object({folder_, 1, 4, "object/schedule", R"({"step":3})", {}});
  ASSERT_TRUE(written.ok()) << to_string(written.error());
  EXPECT_EQ(written->path, "object-schedule-00002-of-00004.json");
  EXPECT_EQ(written->role, "object/schedule");
  EXPECT_EQ(text(written->path), R"({"step":3})");
}

TEST_F(PartWriterTest, AnObjectWithTensorsHasItsDocumentInTheMetadata) {
  const std::vector<std::int64_t> count{9};
  const auto written = write_object({folder_,
                                     0,
                                     1,
                                     "inner/optimizer-1-of-2",
                                     R"({"kind":"SGD"})",
                                     {{"n", {1}, {}, "I64", std::as_bytes(std::span(count))}}});
  ASSERT_TRUE(written.ok()) << to_string(written.error());
  EXPECT_EQ(written->path, "optimizer-1-of-2.safetensors");
  const auto file = SafetensorsFile::open(folder_ / written->path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->metadata().at(kDocumentKey), R"({"kind":"SGD"})");
  EXPECT_EQ(file->type_of("n"), "I64");
}

TEST_F(PartWriterTest, RefusesRolesThatAreNoObjects) {
  for (const char* role : {"weights", "outer/momentum", "object/", "object/../a", "object/.a",
                           "object/a b", "inner/a/b", "later"}) {
    EXPECT_EQ(write_object({folder_, 0, 1, role, "{}", {}}).error().code, Code::kValidation)
        << role;
  }
  EXPECT_TRUE(is_object_name(std::string(96, 'a')));
  EXPECT_FALSE(is_object_name(std::string(97, 'a')));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PartWriterTest, AFileOfAProgramIsCopiedUpToItsBound) {
  const fs::path source = folder_ / "vocabulary", elsewhere = folder_ / "checkpoint";
  ASSERT_TRUE(make_checkpoint_folder(elsewhere).ok());
  ASSERT_TRUE(write_whole_file(source, "0123456789").ok());
  const auto copy = [&](const std::string& name, Bytes most) {
    return write_program_file(elsewhere, 0, 1, name, source, most);
  };
  const auto written = copy("words.txt", Bytes(10));
  ASSERT_TRUE(written.ok()) << to_string(written.error());
  EXPECT_EQ(*written,
            (FileEntry{"file-words.txt", Bytes(10), sha256_of("0123456789"), "file/words.txt"}));
  EXPECT_EQ(copy("large", Bytes(9)).error().code, Code::kResourceExhausted);
  EXPECT_EQ(copy("../up", Bytes(10)).error().code, Code::kValidation);
  fs::remove(source);
  EXPECT_EQ(copy("gone", Bytes(10)).error().code, Code::kNotFound);
  fs::create_directory(source);
  EXPECT_EQ(copy("folder", Bytes(10)).error().code, Code::kNotFound);
  EXPECT_EQ(std::distance(fs::directory_iterator(elsewhere), {}), 1)
      << "a file that is in no part would make the part invalid";
}

}  // namespace
}  // namespace shoal::replica
