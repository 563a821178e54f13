// Exports of checkpoints of Python programs: every tensor under its name, and damage noticed by
// digest.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "proto/job_spec_text.h"
#include "replica/checkpoint/safetensors.h"
#include "threads/file_content.h"
#include "trainer/compute/export.h"
#include "transfer/file_writer.h"

namespace shoal::trainer {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

using Values = std::vector<float>;

// Two stages, as versions before 0.2 wrote them.
class ExportProgramTest : public testing::Test {
 protected:
  ExportProgramTest() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) / (std::string("shoal_program_") + test->name());
    fs::remove_all(root_);
    fs::create_directories(folder());
    write_stage(0, {{"z.weight", {2, 2}, first_}, {"a.bias", {1}, second_}}, {1, 2, 3, 4, 5});
    write_stage(1, {{"head.weight", {3}, third_}}, third_);
  }
  fs::path folder() const { return root_ / "checkpoint"; }
  void write_stage(int stage, const std::vector<replica::TensorToWrite>& tensors,
                   const Values& all) {
    const std::string number = "-0000" + std::to_string(stage + 1) + "-of-00002";
    const auto file = folder() / ("model" + number + ".safetensors");
    EXPECT_TRUE(replica::write_safetensors(file, tensors, {}).ok());
    const nlohmann::json head = {
        {"format", "python-1"},
        {"spec", nlohmann::json::parse(spec_text())},
        {"round", {{"job", 3}, {"epoch", 1}, {"round", 4}}},
        {"step", 40},
        {"cut", {{0, 1}, {1, 2}}},
        {"value_count", all.size()},
        {"momentum_count", 0},
        {"digests", {{"anchor", to_hex(digest_of(all))}, {"outer_momentum", to_hex(Digest())}}}};
    const auto name = stage == 0 ? "shoal.json" : "shoal" + number + ".json";
    EXPECT_TRUE(write_whole_file(folder() / name, head.dump()).ok());
  }
  void write_buffers() {
    const auto file = folder() / "buffers-00001-of-00002.safetensors";
    const auto bytes = std::as_bytes(std::span(counts_));
    EXPECT_TRUE(replica::write_safetensors(
                    file, {{"z.mean", {2}, means_}, {"z.batches", {1}, {}, "I64", bytes}}, {})
                    .ok());
  }
  static std::string spec_text() {
    JobSpec spec;
    spec.name = "test";
    spec.data.train = "/data/text";
    spec.trainer.kind = TrainerKind::kPython;
    spec.trainer.entry = "train.py";
    return proto::spec_to_json(with_derived_fields(spec)).dump();
  }
  Result<Exported> exported(Precision precision, Bytes shard_max = Bytes(1'000'000)) {
    fs::remove_all(root_ / "out");
    return export_checkpoint({folder(), root_ / "out", precision, shard_max, {}});
  }
  Values read(const std::string& file, const std::string& name,
              const std::vector<std::int64_t>& shape, std::size_t count) {
    const auto opened = replica::SafetensorsFile::open(root_ / "out" / file);
    Values values(count);
    EXPECT_TRUE(opened.ok() && opened->read(name, shape, values).ok()) << name;
    return values;
  }

  const Values first_ = {1, 2, 3, 4}, second_ = {5}, third_ = {6, 7, 8.015625};
  const Values means_ = {0.1f, 0.2f};
  const std::vector<std::int64_t> counts_ = {1LL << 40};
  fs::path root_;
};

TEST_F(ExportProgramTest, BuffersKeepTheirTypes) {
  write_buffers();
  const auto done = exported(Precision::kBf16);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(done->bytes, Bytes(16 + 8 + 8));
  EXPECT_EQ(read("model.safetensors", "z.mean", {2}, 2), means_);
  const auto file = replica::SafetensorsFile::open(root_ / "out" / "model.safetensors");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->type_of("z.batches"), "I64");
  EXPECT_TRUE(
      std::ranges::equal(*file->read_bytes("z.batches"), std::as_bytes(std::span(counts_))));
}

TEST_F(ExportProgramTest, AllStagesAreExportedUnderTheNamesOfTheProgram) {
  const auto done = exported(Precision::kFp32);
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(done->files, 1u);
  EXPECT_EQ(done->bytes, Bytes(32));
  EXPECT_EQ(read("model.safetensors", "z.weight", {2, 2}, 4), first_);
  EXPECT_EQ(read("model.safetensors", "a.bias", {1}, 1), second_);
  EXPECT_EQ(read("model.safetensors", "head.weight", {3}, 3), third_);
  EXPECT_FALSE(fs::exists(root_ / "out" / "config.json")) << "nobody knows its architecture";
}

TEST_F(ExportProgramTest, InBf16AndInFilesOfALimitedSize) {
  const auto done = exported(Precision::kBf16, Bytes(8));
  ASSERT_TRUE(done.ok()) << to_string(done.error());
  EXPECT_EQ(done->files, 2u);
  EXPECT_EQ(done->bytes, Bytes(16));
  EXPECT_THAT(read("model-00002-of-00002.safetensors", "head.weight", {3}, 3),
              ElementsAre(6, 7, 8));
  const auto index =
      nlohmann::json::parse(file_content(root_ / "out" / "model.safetensors.index.json").value());
  EXPECT_EQ(index["weight_map"]["z.weight"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(index["metadata"]["total_size"], 16);
}

TEST_F(ExportProgramTest, DamageIsNoticedByDigest) {
  write_stage(1, {{"head.weight", {3}, third_}}, {6, 7, 9});
  const auto error = exported(Precision::kFp32).error();
  EXPECT_EQ(error.code, Code::kDataLoss);
  EXPECT_THAT(to_string(error), HasSubstr("model-00002-of-00002.safetensors"));
}

TEST_F(ExportProgramTest, AStageThatIsMissingIsNamed) {
  fs::remove(folder() / "model-00002-of-00002.safetensors");
  EXPECT_THAT(to_string(exported(Precision::kFp32).error()),
              HasSubstr("model-00002-of-00002.safetensors cannot be opened"));
}

TEST_F(ExportProgramTest, ANameOfTwoStagesIsRefused) {
  write_stage(1, {{"a.bias", {1}, second_}}, second_);
  EXPECT_THAT(to_string(exported(Precision::kFp32).error()),
              HasSubstr("a.bias is also in the file of another stage"));
}

}  // namespace
}  // namespace shoal::trainer
