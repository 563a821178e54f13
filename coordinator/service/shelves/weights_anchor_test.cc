#include "coordinator/service/shelves/weights_anchor.h"

#include <vector>

#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

const std::vector<float> kValues{1, 2, 3, 4, 5, 6};
constexpr const char* kTensors = R"({"__metadata__":{"format":"pt"},)"
                                 R"("b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},)"
                                 R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";

std::string file_of(const std::string& header) {
  std::string file(8, 0);
  file[0] = static_cast<char>(header.size() & 255);
  file[1] = static_cast<char>(header.size() >> 8);
  file += header;
  file.append(reinterpret_cast<const char*>(kValues.data()), kValues.size() * sizeof(float));
  return file;
}

Result<Digest> anchor_of(const std::string& file, std::size_t piece) {
  WeightsAnchor anchor;
  for (std::size_t at = 0; at < file.size(); at += piece) {
    const auto part = std::string_view(file).substr(at, piece);
    anchor.add(std::as_bytes(std::span(part.data(), part.size())));
  }
  return anchor.finish();
}

TEST(WeightsAnchor, EqualsTheVectorsDigestForAnyPieceSize) {
  const std::string file = file_of(kTensors);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{64}, file.size()}) {
    const auto anchor = anchor_of(file, piece);
    ASSERT_TRUE(anchor.ok()) << to_string(anchor.error());
    EXPECT_EQ(*anchor, digest_of(kValues)) << piece;
  }
}

TEST(WeightsAnchor, RefusesTruncatedAndMalformedFiles) {
  const std::string file = file_of(kTensors);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{30}, file.size() - 1}) {
    EXPECT_EQ(anchor_of(file.substr(0, size), 16).error().code, Code::kDataLoss) << size;
  }
  EXPECT_FALSE(anchor_of(file + "x", 16).ok());
  EXPECT_FALSE(anchor_of(std::string(100, '\xff'), 16).ok());
  for (const char* header : {"[]", "{", R"({"a":{"dtype":"F32"}})", R"({"a":5})",
                             R"({"a":{"dtype":"BF16","data_offsets":[0,24]}})",
                             R"({"a":{"dtype":"F32","data_offsets":[8,24]}})",
                             R"({"a":{"dtype":"F32","data_offsets":[0,-8]}})"}) {
    EXPECT_FALSE(anchor_of(file_of(header), 16).ok()) << header;
  }
}

}  // namespace
}  // namespace shoal::coordinator
