// Vectors of a part come back with their digests; damage, other rounds and other models are named.
#include "replica/checkpoint/part_reader.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job/job_rules.h"
#include "replica/checkpoint/part_writer.h"
#include "replica/checkpoint/stored_weights.h"

namespace shoal::replica {
namespace {

namespace fs = std::filesystem;

class PartReaderTest : public testing::Test {
 protected:
  PartReaderTest() {
    std::string pattern = (fs::temp_directory_path() / "shoal-reader-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    spec_.name = "job";
    spec_.data.train = "/data/text";
    spec_.trainer.kind = TrainerKind::kPython;
    spec_.trainer.entry = "train.py";
    spec_ = with_derived_fields(spec_);
  }
  ~PartReaderTest() override { fs::remove_all(folder_); }

  void write(StageIndex stage = 0, std::vector<UnitRange> cut = {{0, 6}}) {
    const CheckpointContent content{
        spec_, std::move(cut), stage, key_, Steps(40), anchor_, {{"momentum", momentum_}}, m_, v_,
        39};
    ASSERT_TRUE(write_part(folder_, content, {weights_}).ok());
  }
  // As a program of a version before 0.2 wrote it.
  void make_old(const TensorMetadata& metadata = {}) {
    const std::vector<TensorToWrite> tensors = {{"_orig_mod.a", {2}, std::span(anchor_).first(2)},
                                                {"module.b", {}, std::span(anchor_).subspan(2)}};
    ASSERT_TRUE(write_safetensors(folder_ / "model.safetensors", tensors, metadata).ok());
    auto json = nlohmann::json::parse(std::ifstream(folder_ / "part-00.json"));
    json["format"] = "python-1";
    json["value_count"] = json["momentum_count"] = 3;
    json["digests"] = {{"anchor", to_hex(digest_of(anchor_))},
                       {"outer_momentum", to_hex(digest_of(momentum_))}};
    for (const char* later : {"trainer", "stage", "vectors", "files"}) json.erase(later);
    std::ofstream(folder_ / "shoal.json") << json.dump();
    fs::remove(folder_ / "part-00.json");
  }
  Code refusal(const std::vector<TensorShape>& tensors) {
    const auto head = read_part(folder_, 0);
    std::vector<float> values;
    return PartReader(folder_, 0, *head, key_).read_weights(tensors, values).error().code;
  }

  fs::path folder_;
  JobSpec spec_ = default_spec(SyncAlgorithm::kDiloco);
  const RoundKey key_{JobId(3), 1, 4};
  const std::vector<float> anchor_{1, 2, 3}, momentum_{4, 5, 6}, m_{1}, v_{2};
  const std::vector<TensorShape> weights_{{"a", {2}, "F32"}, {"b", {}, "F32"}};
};

TEST_F(PartReaderTest, EveryVectorComesBackByItsName) {
  write();
  const auto head = read_part(folder_, 0);
  ASSERT_TRUE(head.ok()) << to_string(head.error());
  const PartReader reader(folder_, 0, *head, key_);
  EXPECT_EQ(reader.weights().value(), weights_);
  Checkpoint read = head->checkpoint;
  ASSERT_TRUE(reader.read_weights(weights_, read.anchor).ok());
  ASSERT_TRUE(reader.read_outer(3, read.outer).ok());
  ASSERT_TRUE(reader.read_moments(1, 1, read).ok());
  EXPECT_EQ(read.anchor, anchor_);
  EXPECT_EQ(read.outer, (NamedVectors{{"momentum", momentum_}}));
  EXPECT_EQ(read.adam_m, m_);
  EXPECT_EQ(read.adam_v, v_);
  EXPECT_EQ(read.adam_step, 39);
}

TEST_F(PartReaderTest, AFileOfAnotherRoundIsDamage) {
  write();
  const auto head = read_part(folder_, 0);
  const RoundKey later{JobId(3), 1, 5};
  std::vector<float> values;
  const PartReader reader(folder_, 0, *head, later);
  EXPECT_EQ(reader.read_weights(weights_, values).error().code, Code::kDataLoss);
  NamedVectors outer;
  EXPECT_EQ(reader.read_outer(3, outer).error().code, Code::kDataLoss);
}

TEST_F(PartReaderTest, OtherValuesThanThoseThatWereWrittenAreDamage) {
  write();
  const std::vector<float> other{1, 2, 4};
  ASSERT_TRUE(
      write_safetensors(folder_ / "outer.safetensors", {{"outer_momentum", {3}, other}},
                        {{"round", text_of(key_)}, {"outer_momentum", to_hex(digest_of(other))}})
          .ok());
  const auto head = read_part(folder_, 0);
  NamedVectors outer;
  const auto read = PartReader(folder_, 0, *head, key_).read_outer(3, outer);
  EXPECT_EQ(read.error().code, Code::kDataLoss) << "the part file has the digest, too";
}

TEST_F(PartReaderTest, AnotherModelOfAProgramIsIncompatible) {
  write();
  EXPECT_EQ(refusal({{"a", {2}, ""}}), Code::kIncompatible);
  EXPECT_EQ(refusal({{"a", {1, 2}, ""}, {"b", {}, ""}}), Code::kIncompatible);
  EXPECT_EQ(refusal({{"a", {2}, ""}, {"b", {}, ""}, {"c", {1}, ""}}), Code::kIncompatible);
}

TEST_F(PartReaderTest, AnOldCheckpointOfAProgramIsReadByThePlainNames) {
  write();
  make_old();
  const auto head = read_part(folder_, 0);
  ASSERT_TRUE(head.ok()) << to_string(head.error());
  const PartReader reader(folder_, 0, *head, key_);
  Checkpoint read;
  ASSERT_TRUE(reader.read_weights(weights_, read.anchor).ok());
  ASSERT_TRUE(reader.read_outer(3, read.outer).ok());
  EXPECT_EQ(read.anchor, anchor_);
  EXPECT_EQ(read.outer, (NamedVectors{{"momentum", momentum_}}));
  std::vector<std::string> roles;
  for (const FileEntry& file : files_of(folder_, 0, *head)) roles.push_back(file.role);
  EXPECT_EQ(roles, (std::vector<std::string>{"weights", "inner/optimizer", "outer/momentum"}));
}

// Programs of earlier builds wrote the tensors themselves, without round and digests.
TEST_F(PartReaderTest, FilesOfAProgramMayLackTheRound) {
  write();
  const std::vector<TensorToWrite> tensors = {{"a", {2}, std::span(anchor_).first(2)},
                                              {"b", {}, std::span(anchor_).subspan(2)}};
  const auto path = folder_ / "model.safetensors";
  ASSERT_TRUE(write_safetensors(path, tensors, {{"format", "pt"}}).ok());
  const auto head = read_part(folder_, 0);
  ASSERT_TRUE(head.ok());
  std::vector<float> values;
  ASSERT_TRUE(PartReader(folder_, 0, *head, key_).read_weights(weights_, values).ok());
  EXPECT_EQ(values, anchor_);
  ASSERT_TRUE(write_safetensors(path, tensors, {{"round", "job_3/1/5"}}).ok());
  values.clear();
  EXPECT_EQ(PartReader(folder_, 0, *head, key_).read_weights(weights_, values).error().code,
            Code::kDataLoss);
}

TEST_F(PartReaderTest, StoredWeightsAreThoseOfAllStagesInTheirOrder) {
  const std::vector<UnitRange> cut{{0, 3}, {3, 6}};
  write(0, cut);
  EXPECT_EQ(StoredWeights::open(folder_).error().code, Code::kNotFound);
  write(1, cut);
  const Error same = StoredWeights::open(folder_).error();
  EXPECT_EQ(same.message, "a is also in the file of another stage");
}

TEST_F(PartReaderTest, StoredWeightsHaveTheBuffersAfterTheWeights) {
  write();
  const std::vector<std::int64_t> count{9};
  const auto bytes = std::as_bytes(std::span(count));
  const auto buffers =
      write_object({folder_, 0, 1, kRoleBuffers, "", {{"n", {1}, {}, "I64", bytes}}});
  ASSERT_TRUE(buffers.ok());
  const CheckpointContent content{
      spec_, {{0, 6}}, 0, key_, Steps(40), anchor_, {{"momentum", momentum_}}, {}, {}, 0};
  ASSERT_TRUE(write_part(folder_, content, {weights_, {}, {*buffers}}).ok());
  const auto stored = StoredWeights::open(folder_);
  ASSERT_TRUE(stored.ok()) << to_string(stored.error());
  EXPECT_TRUE(stored->is_of_program());
  ASSERT_EQ(stored->tensors().size(), 3u);
  EXPECT_EQ(stored->tensors()[1].name, "b");
  EXPECT_EQ(stored->tensors()[1].values.front(), 3);
  EXPECT_EQ(stored->tensors()[2].type, "I64");
  EXPECT_TRUE(std::ranges::equal(stored->tensors()[2].bytes, bytes));
}

}  // namespace
}  // namespace shoal::replica
