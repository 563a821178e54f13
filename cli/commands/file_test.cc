// Which uploaded files are listed and removed.
#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands/commands.h"
#include "cli/server_test_util.h"

namespace shoal::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string hash_of(char digit) { return std::string(64, digit); }

Json file(char digit, const std::string& owner, const std::string& used_by,
          const std::string& created_at, bool complete = true) {
  return Json{{"sha256", hash_of(digit)}, {"size", 1000},   {"received", 1000},
              {"complete", complete},     {"owner", owner}, {"created_at", created_at},
              {"used_by", used_by}};
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

constexpr const char* kLongAgo = "2026-01-01T00:00:00Z";

// A coordinator with files, which ada asks.
class FileCommand : public testing::Test {
 protected:
  Result<int> rm(const FileRemoval& removal) {
    return file_rm({Api(server_.address()), true}, removal);
  }
  std::string answer(const std::string& request) {
    if (request.starts_with("GET /api/v1/session")) return http_answer(200, R"({"name":"ada"})");
    if (request.starts_with("GET /api/v1/files")) {
      return http_answer(200, Json{{"items", files_}, {"next_cursor", nullptr}}.dump());
    }
    const std::string path = "DELETE /api/v1/files/";
    if (!request.starts_with(path)) return http_answer(404, R"({"detail":"no such route"})");
    const std::string sha256 = request.substr(path.size(), 64);
    if (sha256 == hash_of('e')) {
      return http_answer(409, R"({"detail":"the file is used by job mine"})");
    }
    removed_.push_back(sha256);
    return http_answer(200, R"({"size":1000})");
  }

  Json files_ =
      Json::array({file('a', "ada", "", kLongAgo), file('b', "bob", "", kLongAgo),
                   file('c', "ada", "dataset books", kLongAgo), file('d', "ada", "", now_text()),
                   file('e', "ada", "job mine", kLongAgo), file('f', "ada", "", kLongAgo, false)});
  std::vector<std::string> removed_;
  ScriptedServer server_{[this](const std::string& request) { return answer(request); }};
};

TEST_F(FileCommand, UnusedOnesAreOnesOwnThatAreWholeAndNoLongerNew) {
  ASSERT_TRUE(rm({.files = {}, .unused = true}).ok());
  EXPECT_THAT(removed_, ElementsAre(hash_of('a')));
}

TEST_F(FileCommand, AFileIsNamedByItsFirstDigits) {
  ASSERT_TRUE(rm({.files = {"bbbbbbbb", hash_of('d')}, .unused = false}).ok());
  EXPECT_THAT(removed_, ElementsAre(hash_of('b'), hash_of('d')));
  EXPECT_EQ(rm({.files = {"bbbb"}, .unused = false}).error().code, Code::kNotFound);
  EXPECT_EQ(rm({.files = {"99999999"}, .unused = false}).error().code, Code::kNotFound);
  Json other = file('b', "ada", "", kLongAgo);
  other["sha256"] = "bbbbbbbbb" + std::string(55, '0');
  files_.push_back(other);
  EXPECT_THAT(rm({.files = {"bbbbbbbb"}, .unused = false}).error().message,
              HasSubstr("several files begin with bbbbbbbb"));
}

TEST_F(FileCommand, WhatUsesAFileIsSaid) {
  EXPECT_THAT(rm({.files = {hash_of('e')}, .unused = false}).error().message,
              HasSubstr("used by job mine"));
}

TEST_F(FileCommand, EitherFilesOrAllThatAreUnused) {
  EXPECT_EQ(rm({}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(rm({.files = {hash_of('a')}, .unused = true}).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(removed_.empty());
}

TEST_F(FileCommand, AnOlderCoordinatorDoesNotSayWhatIsUnused) {
  files_[0].erase("used_by");
  EXPECT_EQ(rm({.files = {}, .unused = true}).error().code, Code::kIncompatible);
  EXPECT_TRUE(removed_.empty());
}

}  // namespace
}  // namespace shoal::cli
