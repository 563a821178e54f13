#include "cli/api_errors.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/api.h"

namespace shoal::cli {
namespace {

TEST(ApiErrors, ProblemShowsEveryFieldWhereItWasWritten) {
  const HttpResponse response{
      422,
      R"({"title":"Invalid spec","detail":"2 fields are not accepted","hint":"fix them",
      "errors":[{"pointer":"/train/lr","detail":"must be above 0, got -1"},
                {"pointer":"/modle","detail":"unknown; did you mean model?"}]})",
      "application/problem+json"};
  const Error error = error_of_response(response, [](const std::string& pointer) {
    return pointer == "/train/lr" ? "kjv.toml:14: " : std::string();
  });
  EXPECT_EQ(error.code, Code::kValidation);
  EXPECT_EQ(error.message,
            "2 fields are not accepted\n  kjv.toml:14: train.lr: must be above 0, got -1\n"
            "  modle: unknown; did you mean model?");
  EXPECT_EQ(error.remedy, "fix them");
}

TEST(ApiErrors, OneFieldIsSaidOnceAndWhereTheUserWroteIt) {
  const std::string detail = "must be above 0, got -1 (line 3, column 6)";
  const std::string body = R"({"detail":"1 field is not accepted: /train/lr )" + detail +
                           R"(","errors":[{"pointer":"/train/lr","detail":")" + detail + R"("}]})";
  const auto where = [](const std::string&) { return std::string("kjv.toml:14: "); };
  EXPECT_EQ(error_of_response({422, body, "application/problem+json"}, where).message,
            "1 field is not accepted\n  kjv.toml:14: train.lr: must be above 0, got -1");
}

TEST(ApiErrors, WhatTheSentenceSaysIsNotSaidAgain) {
  const HttpResponse response{
      409, R"({"detail":"it is over","errors":[{"pointer":"job","detail":"it is over"}]})",
      "application/problem+json"};
  EXPECT_EQ(error_of_response(response).message, "it is over");
}

TEST(ApiErrors, AConflictIsToldOnceAtItsPlace) {
  const HttpResponse response = {
      409, R"({"detail":"it is taken","errors":[{"pointer":"/name","detail":"it is taken"}]})",
      "application/problem+json"};
  const Locate locate = [](const std::string&) { return std::string("mine.toml:1: "); };
  EXPECT_EQ(error_of_response(response, locate).message, "mine.toml:1: name: it is taken");
}

TEST(ApiErrors, AParameterIsNamed) {
  const HttpResponse response = {
      400,
      R"({"detail":"must be an id","errors":[{"pointer":"/query/replica","detail":"must be an id"}]})",
      "application/problem+json"};
  EXPECT_EQ(to_string(error_of_response(response)), "replica: must be an id");
}

TEST(ApiErrors, AnotherServerIsNamedAsSuch) {
  const Error error = error_of_response({500, "<html>", "text/html"});
  EXPECT_EQ(error.code, Code::kInternal);
  EXPECT_FALSE(error.remedy.empty());
}

TEST(ApiErrors, ExitCodes) {
  EXPECT_EQ(exit_code_of(Code::kNotFound), 3);
  EXPECT_EQ(exit_code_of(Code::kUnauthenticated), 4);
  EXPECT_EQ(exit_code_of(Code::kConflict), 5);
  EXPECT_EQ(exit_code_of(Code::kValidation), 6);
  EXPECT_EQ(exit_code_of(Code::kUnavailable), 7);
  EXPECT_EQ(exit_code_of(Code::kDeadlineExceeded), 8);
  EXPECT_EQ(exit_code_of(Code::kCancelled), 130);
}

TEST(Api, AddressesAreNormalized) {
  EXPECT_EQ(Api("127.0.0.1:7070").origin(), "http://127.0.0.1:7070");
  EXPECT_EQ(Api(":7070").origin(), "http://127.0.0.1:7070");
  EXPECT_EQ(Api("https://shoal.example/").origin(), "https://shoal.example");
  EXPECT_TRUE(Api("http://[::1]:7070").is_loopback());
  EXPECT_TRUE(Api("localhost:7070").is_loopback());
  EXPECT_FALSE(Api("https://shoal.example").is_loopback());
}

TEST(ApiErrors, WhatIsWrongBesidesIsOneMoreLine) {
  const Error refusal{Code::kValidation, "1 field is not accepted\n  a.toml:1: name: bad", "", "h"};
  const Error also{Code::kValidation, "a.toml:4: data.train: no such file: /x", "", ""};
  const Error both = with_refusal(refusal, also);
  EXPECT_EQ(
      both.message,
      "2 fields are not accepted\n  a.toml:1: name: bad\n  a.toml:4: data.train: no such file: "
      "/x");
  EXPECT_EQ(both.remedy, "h");
  const Error conflict{Code::kConflict, "x\n  y", "", ""};
  EXPECT_EQ(with_refusal(conflict, also), conflict);
  const Error syntax{Code::kValidation, "not TOML", "", ""};
  EXPECT_EQ(with_refusal(syntax, also), syntax);
}

TEST(Api, OptionalFieldsHaveFallbacks) {
  const Json object = Json::parse(R"({"a":{"b":1.5,"c":null,"n":"42"},"s":"x"})");
  EXPECT_EQ(number_at(object, "a/b"), 1.5);
  EXPECT_EQ(number_at(object, "a/n"), 42);
  EXPECT_EQ(number_at(object, "a/c", 7), 7);
  EXPECT_EQ(text_at(object, "s"), "x");
  EXPECT_EQ(text_at(object, "a/x/y"), "-");
  EXPECT_EQ(text_at(Json{{"s", "a\x1b[2Jb"}}, "s"), "a\\x1b[2Jb");
}

// A port that was just free: bound, looked at, closed.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

TEST(Http, NobodyThereIsUnavailable) {
  const Api api("127.0.0.1:" + std::to_string(free_port()));
  const auto answer = api.get("/jobs");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
  EXPECT_FALSE(api.answers("/readyz"));
}

TEST(Http, EscapesSegments) { EXPECT_EQ(url_escape("a/b c"), "a%2Fb%20c"); }

}  // namespace
}  // namespace shoal::cli
