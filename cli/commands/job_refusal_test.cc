// Every way in which a coordinator refuses a job ends the command with what was said. Some of the
// refusals name a field, and some a thing that no job file contains.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/api_errors.h"
#include "cli/commands/commands.h"
#include "cli/server_test_util.h"

namespace shoal::cli {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kErrors = {
    "",
    R"(,"errors":[])",
    R"(,"errors":[{"pointer":"scope","detail":"needs jobs:write"}])",
    R"(,"errors":[{"pointer":"","detail":"needs jobs:write"}])",
    R"(,"errors":[{"pointer":"/query/folder","detail":"must be absolute"}])",
    R"(,"errors":[{"pointer":"/name","detail":"is taken"}])",
    R"(,"errors":["text",7,{"detail":"without a pointer"}])"};

Error refused(int status, const std::string& errors) {
  ScriptedServer server([&](const std::string&) {
    return http_answer(status, R"({"detail":"not for you")" + errors + "}",
                       "application/problem+json");
  });
  auto file = JobFile::parse("name = 'b'\n[train]\nlr = 1\n", "b.toml", "/", {});
  SHOAL_CHECK(file.ok());
  const auto sent = send_job({Api(server.address())}, *file, true);
  SHOAL_CHECK(!sent.ok());
  return sent.error();
}

TEST(JobRefusal, EachStatusEndsTheCommandWithOrWithoutFields) {
  const std::vector<std::pair<int, Exit>> kStatuses = {
      {400, kExitValidation},  {401, kExitAuth},    {403, kExitAuth},    {404, kExitNotFound},
      {409, kExitConflict},    {429, kExitFailure}, {500, kExitFailure}, {502, kExitUnreachable},
      {503, kExitUnreachable}, {504, kExitTimeout}, {599, kExitFailure}};
  for (const auto& [status, exit] : kStatuses) {
    for (const std::string& errors : kErrors) {
      const Error error = refused(status, errors);
      EXPECT_EQ(exit_code_of(error.code), exit) << status << errors;
      EXPECT_FALSE(error.message.empty()) << status << errors;
    }
  }
}

TEST(JobRefusal, AScopeIsNotSoughtInTheFile) {
  const Error error = refused(403, kErrors[2]);
  EXPECT_EQ(error.message, "not for you\n  scope: needs jobs:write");
}

TEST(JobRefusal, AFieldOfTheFileIsNamedWithItsLine) {
  EXPECT_THAT(refused(422, kErrors[5]).message, HasSubstr("b.toml:1: name: is taken"));
}

TEST(JobRefusal, AnAnswerThatIsNotAProblemEndsTheCommand) {
  for (const char* body : {"", "<html>", "[]", "null", "{}", R"({"errors":{"pointer":"x"}})"}) {
    ScriptedServer server([&](const std::string&) { return http_answer(403, body, "text/html"); });
    auto file = JobFile::parse("name = 'b'\n", "b.toml", "/", {});
    ASSERT_TRUE(file.ok());
    const auto sent = send_job({Api(server.address())}, *file, true);
    ASSERT_FALSE(sent.ok());
    EXPECT_EQ(sent.error().code, Code::kPermissionDenied) << body;
  }
}

}  // namespace
}  // namespace shoal::cli
