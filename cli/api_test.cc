// Which addresses of a coordinator are taken, and over a real socket: what is asked of one, and how
// its answers are read.
#include "cli/api.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/http_client.h"
#include "cli/server_test_util.h"
#include "threads/environment_test_util.h"

namespace shoal::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Status check(const std::string& address) { return check_origin(Api(address).origin()); }

TEST(Api, AddressesAreCompleted) {
  EXPECT_EQ(Api("localhost:7070/").origin(), "http://localhost:7070");
  EXPECT_EQ(Api(":7070").origin(), "http://127.0.0.1:7070");
  EXPECT_EQ(Api("https://shoal.example.org/team/").origin(), "https://shoal.example.org/team");
}

TEST(Api, AnAddressNeedsAPort) {
  for (const char* good : {"localhost:7070", ":7070", "http://h:80", "[::1]:7070", "h:7070/x",
                           "https://shoal.example.org"}) {
    EXPECT_TRUE(check(good).ok()) << good;
  }
  for (const char* bad : {"localhost", "localhost:", "http://localhost", "http://localhost/x:1",
                          "[::1]", "7070", "", "http://", "http://:7070"}) {
    EXPECT_FALSE(check(bad).ok()) << bad;
    EXPECT_EQ(check(bad).error().field, "--addr") << bad;
  }
  EXPECT_THAT(check("node-7").error().message, HasSubstr("'node-7' has no port"));
  EXPECT_THAT(check("node-7").error().remedy, HasSubstr("http://node-7:7070"));
}

TEST(Api, ABadAddressIsRefusedByEveryCall) {
  EXPECT_EQ(Api("localhost").get("/jobs").error().code, Code::kInvalidArgument);
  EXPECT_FALSE(Api("localhost").answers("/readyz"));
}

TEST(Api, KnowsItsOwnHost) {
  for (const char* near : {"localhost:7070", "127.0.0.9:1", "[::1]:7070", ":7070"})
    EXPECT_TRUE(Api(near).is_loopback()) << near;
  for (const char* far : {"node-7:7070", "[fe80::1]:7070", "10.127.0.1:7070"})
    EXPECT_FALSE(Api(far).is_loopback()) << far;
}

// ---- over a socket; what was asked is kept by the script

TEST(Api, AsksAsTheRestApiWantsIt) {
  std::vector<std::string> asked;
  {
    ScriptedServer server([&](const std::string& request) {
      asked.push_back(request);
      return http_answer(200, R"({"id": "job_1"})");
    });
    const Api api(server.address() + "/");
    EXPECT_EQ(text_at(*api.get("/jobs/a"), "id"), "job_1");
    ASSERT_TRUE(api.post("/jobs", "name = 1", "application/toml").ok());
    ASSERT_TRUE(api.patch("/jobs/a", Json{{"outer_lr", 0.5}}).ok());
  }
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_THAT(asked[0], StartsWith("GET /api/v1/jobs/a HTTP/1.1\r\n"));
  EXPECT_THAT(asked[0], HasSubstr("Accept: application/json\r\n"));
  EXPECT_THAT(asked[0], Not(HasSubstr("Content-Type")));
  EXPECT_THAT(asked[1], StartsWith("POST /api/v1/jobs HTTP/1.1\r\n"));
  EXPECT_THAT(asked[1], HasSubstr("Content-Type: application/toml\r\n"));
  EXPECT_THAT(asked[1], testing::EndsWith("\r\n\r\nname = 1"));
  EXPECT_THAT(asked[2], StartsWith("PATCH /api/v1/jobs/a HTTP/1.1\r\n"));
  EXPECT_THAT(asked[2], testing::EndsWith("\r\n\r\n{\"outer_lr\":0.5}"));
}

TEST(Api, ACoordinatorIsReachedWithoutTheProxyOfTheEnvironment) {
  const ScopedEnvironment environment(dead_proxies());
  ScriptedServer server([](const std::string&) { return http_answer(200, "{}"); });
  const auto answer = Api(server.address()).get("/jobs");
  EXPECT_TRUE(answer.ok()) << answer.error().message;
}

TEST(Api, AFileOfAnObjectStoreComesThroughTheOutboundProxy) {
  std::vector<std::string> asked;
  {
    ScriptedServer proxy([&](const std::string& request) {
      asked.push_back(request);
      return http_answer(200, "bytes");
    });
    ScriptedServer server([](const std::string&) {
      return http_answer(307, "", "text/plain", "Location: http://store.invalid/file\r\n");
    });
    const ScopedEnvironment environment({{"SHOAL_OUTBOUND_PROXY", proxy.address()}});
    HttpRequest request;
    request.url = server.address() + "/file";
    const auto got = send(request);
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(got->body, "bytes");
  }
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_THAT(asked[0], StartsWith("GET http://store.invalid/file HTTP/1.1\r\n"));
}

TEST(Api, ShowsItsToken) {
  std::vector<std::string> asked;
  {
    ScriptedServer server([&](const std::string& request) {
      asked.push_back(request);
      return http_answer(200, "{}");
    });
    ASSERT_TRUE(Api(server.address(), {}, {.token = "secret"}).get("/jobs").ok());
    ASSERT_TRUE(Api(server.address()).get("/jobs").ok());
  }
  EXPECT_THAT(asked[0], HasSubstr("Authorization: Bearer secret\r\n"));
  EXPECT_THAT(asked[1], Not(HasSubstr("Authorization")));
}

TEST(Api, ATokenTravelsInClearToThisHostOnly) {
  const Error refused = Api("192.0.2.1:7070", {}, {.token = "secret"}).get("/jobs").error();
  EXPECT_EQ(refused.code, Code::kInvalidArgument);
  EXPECT_THAT(refused.message, HasSubstr("plain HTTP"));
  EXPECT_THAT(refused.remedy, HasSubstr("--ca"));
}

TEST(Api, RefusalsAndStrangeAnswersAreErrors) {
  std::string answer;
  ScriptedServer server([&](const std::string&) { return answer; });
  const Api api(server.address());
  const auto error_of = [&](int status, const std::string& body) {
    answer = http_answer(status, body);
    return api.get("/jobs").error();
  };
  const Error missing = error_of(404, R"({"detail": "there is no job \"a\"", "hint": "ls"})");
  EXPECT_EQ(missing.code, Code::kNotFound);
  EXPECT_EQ(missing.message, "there is no job \"a\"");
  EXPECT_EQ(missing.remedy, "ls");
  EXPECT_THAT(error_of(502, "<html>").message, HasSubstr("HTTP 502 without saying why"));
  EXPECT_EQ(error_of(409, R"({"title": "A conflict"})").message, "A conflict");
  EXPECT_EQ(error_of(409, "{}").message, "HTTP 409");
  EXPECT_THAT(error_of(200, "<html>").message, HasSubstr("not JSON"));
  EXPECT_THAT(error_of(301, "moved").message, HasSubstr("HTTP 301"));
  answer = http_answer(200, "{}");
  EXPECT_THAT(api.list("/jobs").error().message, HasSubstr("no list for /jobs"));
  EXPECT_TRUE(api.answers("/readyz"));
  answer = http_answer(503, "{}");
  EXPECT_FALSE(api.answers("/readyz"));
}

// The gRPC port wants TLS and closes what begins without it.
TEST(Api, APortThatClosesWithoutAnAnswerMayBeTheOneForAgents) {
  ScriptedServer server([](const std::string&) { return std::string(); });
  const Error error = Api(server.address()).get("/jobs").error();
  EXPECT_EQ(error.field, "--addr");
  EXPECT_THAT(error.message, HasSubstr("closes the connection"));
  EXPECT_THAT(error.remedy, HasSubstr("gRPC address"));
}

// The first bytes of an HTTP/2 connection, as the gRPC port sends them.
TEST(Api, TheGrpcPortIsNamed) {
  ScriptedServer server([](const std::string&) {
    return std::string(
        "\0\0\x18\x04\0\0\0\0\0\0\x04\0\x3f\xff\xff\0\x05\0\x3f\xff\xff\0\x06\0\0\x20\0\xfe\x03\0\0"
        "\0\x01",
        33);
  });
  const Error error = Api(server.address()).get("/jobs").error();
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.field, "--addr");
  EXPECT_THAT(error.message, HasSubstr("does not speak HTTP"));
  EXPECT_THAT(error.remedy, HasSubstr("gRPC"));
}

// A coordinator of 0.1.0 and a newer shoal: who asks for what that one does not have is told why.
TEST(Api, ARefusalByAnotherVersionNamesBoth) {
  std::string version = "0.1.0", refusal = R"({"detail": "there is nothing at /x", "hint": "h"})";
  int status = 404;
  ScriptedServer server([&](const std::string& request) {
    const bool asked = request.starts_with("GET /api/v1/version ");
    return asked ? http_answer(200, R"({"version": ")" + version + R"("})")
                 : http_answer(status, refusal);
  });
  const Api api(server.address(), "0.2.0");
  const std::string advice =
      "this shoal is 0.2.0 and the coordinator 0.1.0: upgrade the coordinator";
  EXPECT_EQ(api.get("/x").error().remedy, "h; " + advice);
  EXPECT_EQ(api.get("/x").error().message, "there is nothing at /x");
  status = 422, refusal = R"({"detail": "1 field is not accepted"})";
  EXPECT_EQ(api.post("/jobs", "a = 1", "application/toml").error().remedy, advice);
  status = 409;  // says nothing about versions
  EXPECT_EQ(api.post("/jobs", "a = 1", "application/toml").error().remedy, "");
  status = 422, version = "0.2.0";
  EXPECT_EQ(api.post("/jobs", "a = 1", "application/toml").error().remedy, "");
  version = "0.3.0";
  EXPECT_THAT(api.get("/x").error().remedy, testing::EndsWith("coordinator 0.3.0: upgrade shoal"));
}

TEST(Api, AListIsReadToItsLastPage) {
  std::vector<std::string> asked;
  ScriptedServer server([&](const std::string& request) {
    asked.push_back(request.substr(4, request.find(" HTTP") - 4));
    const bool first = asked.back().find("cursor=") == std::string::npos;
    return http_answer(200, first ? R"({"items": [1, 2], "next_cursor": "a+/="})"
                                  : R"({"items": [3], "next_cursor": null})");
  });
  const Api api(server.address());
  EXPECT_EQ(api.list("/jobs?phase=training")->at("items"), Json::parse("[1, 2, 3]"));
  EXPECT_THAT(asked, ElementsAre("/api/v1/jobs?phase=training&limit=500",
                                 "/api/v1/jobs?phase=training&limit=500&cursor=a%2B%2F%3D"));
  asked.clear();
  EXPECT_EQ(api.list("/jobs", 2)->at("items"), Json::parse("[1, 2]"));
  EXPECT_THAT(asked, ElementsAre("/api/v1/jobs?limit=2"));
}

// Lines that end in either way, comments, data over several lines, an id that holds until the next.
TEST(Api, EventsAreFollowed) {
  std::string asked;
  ScriptedServer server([&](const std::string& request) {
    asked = request;
    return http_answer(200,
                       ": heartbeat\n\nid: 7\nevent: e\ndata: one\ndata:two\n\n"
                       "data: three\r\n\r\ndata\nid:8\n\ndata: four\n\ndata: cut off",
                       "text/event-stream");
  });
  using Event = std::pair<std::string, std::string>;
  std::vector<Event> events;
  const auto keep = [&](const std::string& id, const std::string& data) {
    events.emplace_back(id, data);
    return true;
  };
  ASSERT_TRUE(Api(server.address()).follow("/events/stream", "6", keep).ok());
  EXPECT_THAT(asked, HasSubstr("Last-Event-ID: 6\r\n"));
  EXPECT_THAT(asked, HasSubstr("Accept: text/event-stream\r\n"));
  EXPECT_THAT(events, ElementsAre(Event("7", "one\ntwo"), Event("7", "three"), Event("8", "four")));
  int seen = 0;
  const auto one = [&](const std::string&, const std::string&) { return ++seen < 1; };
  EXPECT_TRUE(Api(server.address()).follow("/events/stream", "", one).ok()) << "its wish to stop";
  EXPECT_EQ(seen, 1);
  EXPECT_THAT(asked, Not(HasSubstr("Last-Event-ID")));
}

}  // namespace
}  // namespace shoal::cli
