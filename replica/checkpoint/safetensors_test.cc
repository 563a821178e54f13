// What is written is read back, in the published layout; damaged files are refused.
#include "replica/checkpoint/safetensors.h"

#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "threads/file_content.h"
#include "transfer/file_writer.h"

namespace shoal::replica {
namespace {

using testing::HasSubstr;

std::filesystem::path temp_path(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / ("shoal_safetensors_test_" + name);
}

// Precision is that of values in float32 alone.
TEST(Safetensors, TensorsOfOtherTypesKeepTheirBytes) {
  const std::vector<std::int64_t> counts = {3, 1LL << 40};
  const std::vector<float> values = {1.5f};
  const auto bytes = std::as_bytes(std::span(counts));
  const auto path = temp_path("types");
  const std::vector<TensorToWrite> tensors = {{"count", {2}, {}, "I64", bytes}, {"w", {1}, values}};
  ASSERT_TRUE(write_safetensors(path, tensors, {}, Precision::kBf16).ok());
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  EXPECT_EQ(file->type_of("count"), "I64");
  EXPECT_EQ(file->type_of("w"), "BF16");
  const auto read = file->read_bytes("count");
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(std::ranges::equal(*read, bytes));
  EXPECT_EQ(file->read_bytes("gone").error().code, Code::kNotFound);
}

TEST(Safetensors, RoundTrip) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {-1};
  const auto path = temp_path("round_trip");
  ASSERT_TRUE(write_safetensors(path, {{"a", {2, 3}, a}, {"b", {1}, b}}, {{"format", "pt"}}).ok());
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.ok()) << to_string(file.error());
  EXPECT_EQ(file->metadata().at("format"), "pt");
  std::vector<float> read_a(6), read_b(1);
  ASSERT_TRUE(file->read("a", {2, 3}, read_a).ok());
  ASSERT_TRUE(file->read("b", {1}, read_b).ok());
  EXPECT_EQ(read_a, a);
  EXPECT_EQ(read_b, b);
}

TEST(Safetensors, NeighborsAreMappedAsOneVector) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {-1}, c = {7, 8};
  const auto path = temp_path("map");
  ASSERT_TRUE(write_safetensors(path, {{"a", {2, 3}, a}, {"b", {1}, b}, {"c", {2}, c}}, {}).ok());
  std::optional<MappedValues> mapped;
  {
    const auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file.ok()) << to_string(file.error());
    mapped = file->map({{"b", {1}}, {"c", {2}}});
    EXPECT_FALSE(file->map({{"a", {2, 3}}, {"c", {2}}})) << "b lies between them";
    EXPECT_FALSE(file->map({{"a", {3, 2}}, {"b", {1}}})) << "another shape";
    EXPECT_FALSE(file->map({{"a", {2, 3}}, {"x", {1}}})) << "missing";
  }
  ASSERT_TRUE(mapped);
  std::filesystem::remove(path);
  EXPECT_THAT(mapped->values(), testing::ElementsAre(-1, 7, 8)) << "longer than file and name";
}

TEST(Safetensors, HeaderIsAlignedAndSaysWhereThingsAre) {
  const std::vector<float> values = {1, 2};
  const auto path = temp_path("header");
  ASSERT_TRUE(write_safetensors(path, {{"x", {2}, values}}, {}).ok());
  const std::string bytes = file_content(path).value();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  const auto json = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(json["x"]["dtype"], "F32");
  EXPECT_EQ(json["x"]["data_offsets"], (std::vector<int>{0, 8}));
  EXPECT_EQ(bytes.size(), 8 + length + 8);
}

TEST(Safetensors, WrongShapeAndMissingTensorAreRefused) {
  const std::vector<float> values = {1, 2};
  const auto path = temp_path("shape");
  ASSERT_TRUE(write_safetensors(path, {{"x", {2}, values}}, {}).ok());
  const auto file = SafetensorsFile::open(path);
  std::vector<float> out(2);
  EXPECT_EQ(file->read("x", {1, 2}, out).error().code, Code::kIncompatible);
  EXPECT_EQ(file->read("y", {2}, out).error().code, Code::kNotFound);
}

// A file of one tensor, as others write them.
std::filesystem::path file_of(const std::string& name, const std::string& entry,
                              const std::string& data) {
  const std::string header = R"({"x":{)" + entry + "}}";
  const std::uint64_t length = header.size();
  const std::string front(reinterpret_cast<const char*>(&length), sizeof length);
  EXPECT_TRUE(write_whole_file(temp_path(name), front + header + data).ok());
  return temp_path(name);
}

// 1 and -2.5 in both, and the smallest fp16 above 0.
TEST(Safetensors, HalfPrecisionIsReadAsFp32) {
  std::vector<float> out(2);
  const auto read = [&](const std::string& type, const std::string& data) {
    const auto path =
        file_of("half", "\"dtype\":\"" + type + R"(","shape":[2],"data_offsets":[0,4])", data);
    const auto file = SafetensorsFile::open(path);
    return file ? file->read("x", {2}, out) : Status(file.error());
  };
  ASSERT_TRUE(read("BF16", std::string("\x80\x3f\x20\xc0", 4)).ok());
  EXPECT_EQ(out, (std::vector<float>{1, -2.5}));
  ASSERT_TRUE(read("F16", std::string("\x00\x3c\x00\xc1", 4)).ok());
  EXPECT_EQ(out, (std::vector<float>{1, -2.5}));
  ASSERT_TRUE(read("F16", std::string("\x01\x00\x00\x00", 4)).ok());
  EXPECT_EQ(out, (std::vector<float>{0x1p-24f, 0}));
  const Status other = read("I16", std::string(4, '\0'));
  EXPECT_EQ(other.error().code, Code::kIncompatible);
  EXPECT_THAT(other.error().message, HasSubstr("x in "));
  EXPECT_THAT(other.error().message, HasSubstr("I16"));
  EXPECT_EQ(read("F32", std::string(4, '\0')).error().code, Code::kDataLoss);
}

TEST(Safetensors, DamagedFilesAreRefused) {
  const std::vector<float> values = {1, 2};
  const auto path = temp_path("damaged");
  ASSERT_TRUE(write_safetensors(path, {{"x", {2}, values}}, {}).ok());
  const std::string good = file_content(path).value();
  for (const std::string& bad : {good.substr(0, good.size() - 1), good.substr(0, 5),
                                 std::string(64, '\xff'), std::string(8, '\0') + "not json"}) {
    ASSERT_TRUE(write_whole_file(path, bad).ok());
    const auto file = SafetensorsFile::open(path);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, Code::kDataLoss);
  }
  EXPECT_EQ(SafetensorsFile::open(temp_path("nothing_here")).error().code, Code::kNotFound);
}

TEST(Safetensors, NumbersThatCannotBeAreRefused) {
  const auto path = temp_path("numbers");
  for (const char* entry :
       {R"("shape":[-2],"data_offsets":[0,8])", R"("shape":[2],"data_offsets":[-8,0])",
        R"("shape":[2],"data_offsets":[0,8.5])", R"("shape":[1e300],"data_offsets":[0,8])",
        R"("shape":[2],"data_offsets":[0,99999999999999999999])"}) {
    const std::string header = std::string(R"({"x":{"dtype":"F32",)") + entry + "}}";
    const std::uint64_t length = header.size();
    const std::string front(reinterpret_cast<const char*>(&length), sizeof length);
    ASSERT_TRUE(write_whole_file(path, front + header + std::string(8, 'x')).ok());
    const auto file = SafetensorsFile::open(path);
    ASSERT_FALSE(file.ok()) << entry;
    EXPECT_EQ(file.error().code, Code::kDataLoss);
  }
}

}  // namespace
}  // namespace shoal::replica
