// Downloads of checkpoints: what is there already is not fetched again, what was begun is
// continued, and only what has the promised SHA-256 gets its name.
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "cli/commands/commands.h"
#include "cli/server_test_util.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kText = "0123456789";
constexpr const char* kDigest = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882";

class DownloadTest : public testing::Test {
 protected:
  DownloadTest() {
    std::string name = (fs::temp_directory_path() / "shoal-download-XXXXXX").string();
    SHOAL_CHECK(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~DownloadTest() override { fs::remove_all(folder_); }

  Status download() { return download_checkpoint(Api(server_.address()), "ckpt_1", folder_); }
  std::string answer(const std::string& request) {
    if (request.starts_with("GET /api/v1/checkpoints/ckpt_1 ")) {
      return http_answer(200, R"({"files": [{"path": ")" + path_ + R"(", "size": 10, "sha256": ")" +
                                  kDigest + "\"}]}");
    }
    const std::size_t at = request.find("Range: bytes=");
    asked_.push_back(at == std::string::npos ? "whole" : request.substr(at + 13, 2));
    if (at == std::string::npos || !ranges_) return http_answer(200, text_, "x/y");
    const std::size_t from = std::stoul(request.substr(at + 13));
    return http_answer(206, text_.substr(from), "x/y",
                       "Content-Range: bytes " + std::to_string(from) + "-9/10\r\n");
  }
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((fs::path(folder_) / name).parent_path());
    std::ofstream(fs::path(folder_) / name) << text;
  }
  std::string content(const std::string& name) const {
    std::ifstream file(fs::path(folder_) / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_, path_ = "state/model.bin", text_ = kText;
  bool ranges_ = true;
  std::vector<std::string> asked_;
  ScriptedServer server_{[this](const std::string& request) { return answer(request); }};
};

TEST_F(DownloadTest, AFileIsFetchedOnce) {
  ASSERT_TRUE(download().ok());
  EXPECT_EQ(content("state/model.bin"), kText);
  ASSERT_TRUE(download().ok());
  EXPECT_THAT(asked_, ElementsAre("whole"));
  put("state/model.bin", "another");
  ASSERT_TRUE(download().ok());
  EXPECT_EQ(content("state/model.bin"), kText);
}

TEST_F(DownloadTest, WhatWasBegunIsContinued) {
  put("state/model.bin.part", "0123");
  ASSERT_TRUE(download().ok());
  EXPECT_THAT(asked_, ElementsAre("4-"));
  EXPECT_EQ(content("state/model.bin"), kText);
  EXPECT_FALSE(fs::exists(fs::path(folder_) / "state/model.bin.part"));
}

TEST_F(DownloadTest, WhatIsThereWholeOnlyWantsItsName) {
  put("state/model.bin.part", kText);
  ASSERT_TRUE(download().ok());
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_EQ(content("state/model.bin"), kText);
}

// A proxy may know nothing of ranges: then it comes from the start.
TEST_F(DownloadTest, AnAnswerWithoutARangeIsTheWholeFile) {
  ranges_ = false;
  put("state/model.bin.part", "0123");
  const Status done = download();
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(content("state/model.bin"), kText);
}

TEST_F(DownloadTest, MoreThanThereShouldBeIsThrownAway) {
  put("state/model.bin.part", "0123456789 and more");
  ASSERT_TRUE(download().ok());
  EXPECT_THAT(asked_, ElementsAre("whole"));
}

TEST_F(DownloadTest, AnotherContentIsNotKept) {
  text_ = "0123456780";
  const Status refused = download();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kDataLoss);
  EXPECT_THAT(refused.error().message, HasSubstr("state/model.bin"));
  EXPECT_FALSE(fs::exists(fs::path(folder_) / "state/model.bin"));
  EXPECT_FALSE(fs::exists(fs::path(folder_) / "state/model.bin.part")) << "starts over next time";
}

TEST_F(DownloadTest, NothingLandsOutsideTheFolder) {
  for (const char* path : {"../model.bin", "/tmp/model.bin", "a/../../model.bin", ""}) {
    path_ = path;
    EXPECT_EQ(download().error().code, Code::kDataLoss) << path;
  }
  EXPECT_THAT(asked_, IsEmpty());
}

}  // namespace
}  // namespace shoal::cli
