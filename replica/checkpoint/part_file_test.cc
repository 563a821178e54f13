#include "replica/checkpoint/part_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "job/job_rules.h"

namespace shoal::replica {
namespace {

namespace fs = std::filesystem;

class PartFileTest : public testing::Test {
 protected:
  PartFileTest() {
    std::string pattern = (fs::temp_directory_path() / "shoal-part-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    spec_.name = "job";
    spec_.data.train = "/data/text";
    spec_ = with_derived_fields(spec_);
  }
  ~PartFileTest() override { fs::remove_all(folder_); }

  CheckpointContent content(StageIndex stage = 0) {
    return {spec_,   {{0, 3}, {3, 6}},          stage, key_, Steps(40),
            anchor_, {{"momentum", momentum_}}, {},    {},   0};
  }
  void write(StageIndex stage = 0) {
    const CheckpointContent all = content(stage);
    const auto part = write_part_file(folder_, all, digests_of(all), files_, "bytes");
    ASSERT_TRUE(part.ok());
    part_ = *part;
  }
  std::string text(const std::string& name) {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void change(const char* name, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(text("part-00.json"));
    json[name] = value;
    std::ofstream(folder_ / "part-00.json") << json.dump();
  }
  Code refusal(StageIndex stage = 0) { return read_part(folder_, stage).error().code; }

  fs::path folder_;
  JobSpec spec_ = default_spec(SyncAlgorithm::kDiloco);
  const RoundKey key_{JobId(3), 1, 4};
  const std::vector<float> anchor_{1, 2, 3}, momentum_{4, 5, 6};
  const std::vector<FileEntry> files_{
      {"model.safetensors", Bytes(12), std::string(64, 'a'), kRoleWeights}};
  WrittenPart part_;
};

TEST_F(PartFileTest, HasNoKeyThatProtocol7Refuses) {
  write();
  const auto json = nlohmann::json::parse(text("part-00.json"));
  EXPECT_EQ(json.at("spec").at("name"), "job");
  EXPECT_FALSE(json.at("spec").contains("description"));
  EXPECT_EQ(json.at("spec").at("sync").at("outer").size(), 2u) << "lr and momentum";
}

TEST_F(PartFileTest, ReadsBackWhatWasWritten) {
  write();
  const auto head = read_part(folder_, 0);
  ASSERT_TRUE(head.ok()) << to_string(head.error());
  EXPECT_EQ(head->format, PartFormat::kPartFile);
  EXPECT_EQ(head->checkpoint.spec, spec_);
  EXPECT_EQ(head->checkpoint.cut, (std::vector<UnitRange>{{0, 3}, {3, 6}}));
  EXPECT_EQ(head->checkpoint.key, key_);
  EXPECT_EQ(head->checkpoint.step, Steps(40));
  EXPECT_EQ(head->digests.at("anchor"), digest_of(anchor_));
  EXPECT_EQ(head->digests.at("outer_momentum"), digest_of(momentum_));
  EXPECT_EQ(head->value_counts.at("anchor"), 3);
  EXPECT_EQ(head->files, files_);
  EXPECT_FALSE(head->is_of_program());
}

TEST(OuterFile, MomentumKeepsTheNamesOfEarlierVersions) {
  const OuterFile momentum = outer_file("momentum"), other = outer_file("adam_v");
  EXPECT_EQ(momentum.stem, "outer");
  EXPECT_EQ(momentum.tensor, "outer_momentum");
  EXPECT_EQ(momentum.role, "outer/momentum");
  EXPECT_EQ(other.stem, "outer_adam_v");
  EXPECT_EQ(other.tensor, "outer_adam_v");
  EXPECT_EQ(other.role, "outer/adam_v");
}

TEST_F(PartFileTest, ListsItselfInTheReport) {
  write();
  ASSERT_EQ(part_.files.size(), 2u);
  EXPECT_EQ(part_.anchor, digest_of(anchor_));
  const std::string content = text("part-00.json");
  EXPECT_EQ(part_.files[1],
            (FileEntry{"part-00.json", Bytes(std::ssize(content)), sha256_of(content), kRolePart}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "nothing is left beside it";
}

TEST_F(PartFileTest, HasOneFilePerStage) {
  write(1);
  EXPECT_TRUE(fs::exists(folder_ / "part-01.json"));
  EXPECT_TRUE(read_part(folder_, 1).ok());
  EXPECT_EQ(refusal(0), Code::kNotFound);
  write(0);
  fs::remove(folder_ / "part-01.json");
  EXPECT_EQ(refusal(1), Code::kNotFound) << "that of stage 0 does not stand for it";
  EXPECT_EQ(refusal(2), Code::kIncompatible) << "the cut has two";
}

TEST_F(PartFileTest, ReadsAnOldPartBesideANewStage0) {
  write(0);
  EXPECT_EQ(refusal(1), Code::kNotFound);
  std::ofstream(folder_ / "shoal_state-00002-of-00002.safetensors") << "tensors";
  const auto head = read_part(folder_, 1);
  ASSERT_TRUE(head.ok()) << to_string(head.error());
  EXPECT_EQ(head->format, PartFormat::kStages);
  EXPECT_EQ(head->checkpoint.key, key_);
  EXPECT_TRUE(head->digests.empty()) << "those of stage 0 are not those of stage 1";
}

TEST_F(PartFileTest, RefusesDamagedAndNewerFiles) {
  for (const char* name : {"round", "step", "cut", "vectors", "files", "spec", "stage", "format"}) {
    write();
    change(name, nullptr);
    EXPECT_FALSE(read_part(folder_, 0).ok()) << name;
  }
  write();
  change("format", 4);
  EXPECT_EQ(refusal(), Code::kIncompatible);
  write();
  fs::resize_file(folder_ / "part-00.json", 100);
  EXPECT_EQ(refusal(), Code::kDataLoss);
  const std::string digest(32, '7');
  const nlohmann::json good{{"values", 3}, {"digest", digest}};
  for (const nlohmann::json& vectors : std::vector<nlohmann::json>{
           {{"anchor", {{"values", -1}, {"digest", digest}}}},
           {{"anchor", {{"values", 3}, {"digest", ""}}}},
           {{"outer_momentum", good}},
           {{"anchor", good}, {"outer_momentum", {{"values", 4}, {"digest", digest}}}},
           nlohmann::json::object(),
           nlohmann::json::array()}) {
    write();
    change("vectors", vectors);
    EXPECT_EQ(refusal(), Code::kDataLoss) << vectors;
  }
  write();
  change("stage", 1);
  EXPECT_EQ(refusal(), Code::kDataLoss);
  std::ofstream(folder_ / "part-00.json") << std::string(1'000'000, '[');
  EXPECT_EQ(refusal(), Code::kDataLoss);
  std::ofstream(folder_ / "part-00.json")
      << R"({"format":3,"spec":)" << std::string(100'000, '[') << std::string(100'000, ']') << "}";
  EXPECT_EQ(refusal(), Code::kDataLoss);
  fs::remove(folder_ / "part-00.json");
  fs::create_directory(folder_ / "part-00.json");
  EXPECT_EQ(refusal(), Code::kNotFound);
}

TEST_F(PartFileTest, IgnoresUnknownFields) {
  write();
  change("later", {{"field", 1}});
  EXPECT_TRUE(read_part(folder_, 0).ok());
}

TEST_F(PartFileTest, NamesFilesByStage) {
  EXPECT_EQ(tensor_file("model", 0, 1), "model.safetensors");
  EXPECT_EQ(tensor_file("model", 1, 4), "model-00002-of-00004.safetensors");
  EXPECT_EQ(part_file(12), "part-12.json");
}

}  // namespace
}  // namespace shoal::replica
