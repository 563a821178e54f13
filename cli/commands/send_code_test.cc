// What is sent of a folder, and what the job then says of it.
#include "cli/commands/send_code.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "cli/server_test_util.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SendCode : public testing::Test {
 protected:
  ~SendCode() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }
  static JobFile job(const std::string& entry) {
    auto file = JobFile::parse("# mine\nname = 'a'\n[trainer]\nkind = 'python'\nentry = '" + entry +
                                   "'\n[data]\ntrain = 'x'\n",
                               "a.toml", "/", {});
    EXPECT_TRUE(file.ok());
    return std::move(file).value();
  }

  const std::string folder_ = [] {
    std::string name = (fs::temp_directory_path() / "shoal-code-XXXXXX").string();
    return std::string(::mkdtemp(name.data()));
  }();
};

TEST_F(SendCode, TheJobNamesTheHashOfWhatIsSent) {
  write("train.py", "import shoal\n");
  const auto code = pack_code(folder_);
  ASSERT_TRUE(code.ok()) << to_string(code.error());
  EXPECT_EQ(code->name, "sha256:" + sha256_of(code->bundle));
  JobFile file = job("train.py");
  const Status named = name_code(*code, folder_, file);
  ASSERT_TRUE(named.ok()) << to_string(named.error());
  EXPECT_EQ(file.spec()["trainer"]["code"], code->name);
  EXPECT_THAT(file.text(), HasSubstr("# mine"));
  EXPECT_EQ(file.locate("/trainer/code"), "--code: ");
}

TEST_F(SendCode, TheEntryMustBeInTheFolder) {
  write("train.py", "import shoal\n");
  const auto code = pack_code(folder_);
  ASSERT_TRUE(code.ok());
  JobFile file = job("main.py");
  const Status named = name_code(*code, folder_, file);
  ASSERT_FALSE(named.ok());
  EXPECT_THAT(named.error().message, HasSubstr("main.py, is not a file in " + folder_));
}

TEST_F(SendCode, WhatCannotBeSentIsNamed) {
  write(std::string(101, 'x') + ".py", "");
  const auto code = pack_code(folder_);
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.error().field, "--code");
  EXPECT_THAT(code.error().message, HasSubstr("xxx.py has too long a path"));
}

TEST_F(SendCode, TheCoordinatorGetsTheBundle) {
  write("train.py", "import shoal\n");
  const auto code = pack_code(folder_);
  ASSERT_TRUE(code.ok());
  std::string received;
  ScriptedServer server([&](const std::string& request) {
    if (request.starts_with("PUT ")) received += request.substr(request.find("\r\n\r\n") + 4);
    const bool complete = received == code->bundle;
    return http_answer(200, Json{{"received", received.size()}, {"complete", complete}}.dump());
  });
  const Status sent = send_code(Api(server.address()), *code);
  EXPECT_TRUE(sent.ok()) << to_string(sent.error());
  EXPECT_EQ(received, code->bundle);
}

}  // namespace
}  // namespace shoal::cli
