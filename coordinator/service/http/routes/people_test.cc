// People at the door: which routes need a login, what each scope may do, browsers, tokens, and what
// the audit trail says of it.
#include "coordinator/service/people/people.h"

#include <gmock/gmock.h>

#include "coordinator/service/http/router.h"
#include "coordinator/service/http/server_test_util.h"

namespace shoal::coordinator::rest {
namespace {

using identity::Action;
using identity::Grant;
using identity::Scope;
using nlohmann::json;
using ::testing::HasSubstr;
using testing::Received;

constexpr const char* kNobody = "Authorization: Bearer none\r\n";

class PeopleRoutes : public testing::ServerFixture {
 protected:
  void SetUp() override { start(); }
  Received post(const std::string& path, const std::string& body, const std::string& headers = {}) {
    return testing::ask(address_, "POST", path, "Content-Type: application/json\r\n" + headers,
                        body);
  }
  Received remove(const std::string& path, const std::string& headers = {}) {
    return testing::ask(address_, "DELETE", path, headers);
  }
  Received log_in(const std::string& token) {
    return post("/api/v1/session", json{{"token", token}}.dump(), "Cookie: none=1\r\n");
  }
  static std::string cookie_of(const Received& received) {
    const std::string set = received.header("set-cookie");
    return "Cookie: " + set.substr(0, set.find(';')) + "\r\n";
  }
  json newest_audit() { return get("/api/v1/audit?limit=1").json()["items"].at(0); }
};

// A path of the template that some object has.
std::string path_of(const Route& route) {
  std::string path(route.path);
  for (const auto& [part, value] : {std::pair<std::string, std::string>{"{job}", "alpha"},
                                    {"{checkpoint}", "ckpt_5"},
                                    {"{agent}", "agt_1"},
                                    {"{round}", "1"},
                                    {"{token}", "tok_99"},
                                    {"{path...}", "config.json"},
                                    {"{slug}", "not-found"},
                                    {"{sha256}", std::string(64, '0')},
                                    {"{dataset}", "books"}}) {
    const std::size_t at = path.find(part);
    if (at != std::string::npos) path.replace(at, part.size(), value);
  }
  return path;
}

TEST_F(PeopleRoutes, NothingButThePageAndProbesIsOpen) {
  for (const Route& route : route_table()) {
    const Received received = testing::ask(address_, route.method, path_of(route), kNobody,
                                           route.method == "GET" ? "" : "{}");
    const bool refused = received.status == 401;
    const bool is_login = route.path == "/api/v1/session" && route.method != "GET";
    const bool is_page = !route.path.starts_with("/api/") && route.path != "/metrics";
    const bool joins = route.access.door == Door::kProof;  // refused without TLS
    EXPECT_EQ(refused, !is_login && !is_page && !joins) << route.method << " " << route.path;
    if (refused) {
      EXPECT_EQ(received.header("www-authenticate"), "Bearer");
    }
  }
}

// Each scope at each route: 403 exactly where the table of identity/scopes.h says so.
TEST_F(PeopleRoutes, EachScopeMayWhatItsTableSays) {
  for (const auto& [scope, word] : kEnumerators<Scope>) {
    const std::string login = login_of("ada", {scope});
    for (const Route& route : route_table()) {
      if (route.access.door != Door::kAction || route.path.ends_with("/stream")) continue;
      const Grant grant = granted({scope}, route.access.action);
      const bool of_job = route.path.find("{job}") != std::string::npos ||
                          route.path.find("{checkpoint}") != std::string::npos;
      const bool allowed = grant == Grant::kAny || (grant == Grant::kOwn && !of_job);
      const Received received = testing::ask(address_, route.method, path_of(route), login,
                                             route.method == "GET" ? "" : "{}");
      EXPECT_EQ(received.status == 403, !allowed)
          << word << " " << route.method << " " << route.path << ": " << received.status;
    }
  }
}

// Whatever changes something is audited; the list of what does not is this one. Of an upload the
// announcement is audited, not each of its pieces.
TEST_F(PeopleRoutes, EveryChangeHasAWordOfTheAuditTrail) {
  for (const Route& route : route_table()) {
    const bool changes = route.method != "GET" && route.method != "PUT" &&
                         route.path != "/api/v1/renew" && !route.path.ends_with("/verify");
    EXPECT_EQ(!route.access.audit.empty(), changes) << route.method << " " << route.path;
  }
}

TEST_F(PeopleRoutes, ASubmitterActsOnItsOwnJobs) {
  const std::string ada = login_of("ada", {Scope::kSubmitter});
  const std::string bob = login_of("bob", {Scope::kSubmitter});
  const auto made = post("/api/v1/jobs", R"({"name":"hers","data":{"train":"/x.txt"}})", ada);
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.json()["owner"], "ada");
  const auto refused = post("/api/v1/jobs/hers/cancel", "", bob);
  expect_problem(refused, 403, "permission-denied");
  EXPECT_THAT(refused.body, HasSubstr("job hers is of ada"));
  EXPECT_EQ(get("/api/v1/jobs/hers", bob).status, 200);
  EXPECT_EQ(post("/api/v1/jobs/hers/pause", "", ada).status, 202);
  EXPECT_EQ(post("/api/v1/jobs/hers/cancel", "", login_of("eve", {Scope::kOperator})).status, 202);
  expect_problem(get("/api/v1/checkpoints/ckpt_5/files/config.json", ada), 403,
                 "permission-denied");
  expect_problem(post("/api/v1/jobs/nothing/cancel", "", ada), 404, "not-found");
}

TEST_F(PeopleRoutes, ASubmitterGoesNoHigherThanTheDefaultPriority) {
  const std::string ada = login_of("ada", {Scope::kSubmitter});
  const std::string eve = login_of("eve", {Scope::kOperator});
  const auto spec = [](const char* priority) {
    return R"({"name":"hers","data":{"train":"/x.txt"},"swarm":{"priority":)" +
           std::string(priority) + "}}";
  };
  for (const char* route : {"/api/v1/jobs", "/api/v1/jobs?dry_run=true"}) {
    const auto refused = post(route, spec("51"), ada);
    expect_problem(refused, 403, "permission-denied");
    EXPECT_EQ(refused.json()["errors"][0]["pointer"], "/swarm/priority");
    EXPECT_THAT(refused.body, HasSubstr("must be at most 50 (the default) with the scope submit"));
    EXPECT_THAT(refused.body, HasSubstr("let an operator or admin raise it"));
  }
  ASSERT_EQ(post("/api/v1/jobs", spec("50"), ada).status, 201);
  const auto set = [&](const char* body, const std::string& login) {
    return testing::ask(address_, "PATCH", "/api/v1/jobs/hers", login, body);
  };
  EXPECT_EQ(set(R"({"priority": 20})", ada).status, 200);
  const auto refused = set(R"({"priority": 51})", ada);
  expect_problem(refused, 403, "permission-denied");
  EXPECT_EQ(refused.json()["errors"][0]["pointer"], "/priority");
  EXPECT_EQ(set(R"({"priority": 99})", eve).status, 200);
  EXPECT_EQ(get("/api/v1/jobs/hers", ada).json()["status"]["priority"], 99);
}

TEST_F(PeopleRoutes, TheScopeThatIsNeededIsNamed) {
  const auto refused = post("/api/v1/authorities/rotate", "", login_of("ada", {Scope::kOperator}));
  expect_problem(refused, 403, "permission-denied");
  EXPECT_THAT(refused.body, HasSubstr("rotate_ca needs one of the scopes admin"));
  EXPECT_THAT(refused.body, HasSubstr("the token of ada has operator"));
}

TEST_F(PeopleRoutes, ABrowserLogsInAndOut) {
  const auto session = log_in(admin_token());
  ASSERT_EQ(session.status, 200) << session.body;
  EXPECT_EQ(session.json()["name"], "admin");
  EXPECT_EQ(session.json()["scope"], "admin");
  EXPECT_EQ(session.json()["grants"]["rotate_ca"], "any");
  const std::string set = session.header("set-cookie");
  EXPECT_THAT(set, HasSubstr("; HttpOnly"));
  EXPECT_THAT(set, HasSubstr("; SameSite=Strict"));
  EXPECT_THAT(set, HasSubstr("; Path=/"));
  EXPECT_EQ(set.find("Secure"), std::string::npos) << "over plain HTTP on loopback";
  const std::string cookie = cookie_of(session);
  EXPECT_EQ(get("/api/v1/session", cookie).json(), session.json());
  EXPECT_EQ(get("/api/v1/jobs", cookie).status, 200);
  const auto out = remove("/api/v1/session", cookie);
  EXPECT_EQ(out.status, 204);
  EXPECT_THAT(out.header("set-cookie"), HasSubstr("Max-Age=0"));
  expect_problem(get("/api/v1/jobs", cookie), 401, "unauthenticated");
  EXPECT_EQ(remove("/api/v1/session", cookie).status, 204) << "once more harms nobody";
}

TEST_F(PeopleRoutes, WhoIsRefusedGetsNoCookie) {
  for (const char* body : {"{}", R"({"token":1})", R"({"token":"a","ticket":"b"})", R"({"x":"y"})"})
    expect_problem(post("/api/v1/session", body), 400, "invalid-request");
  for (const char* body : {R"({"token":"a"})", R"({"ticket":"b"})"}) {
    const auto refused = post("/api/v1/session", body);
    expect_problem(refused, 401, "unauthenticated");
    EXPECT_EQ(refused.header("set-cookie"), "");
  }
}

TEST_F(PeopleRoutes, ThroughAProxyTheCookieIsSecure) {
  HttpOptions options;
  options.public_origin = "https://shoal.example";
  start(std::move(options));
  const std::string body = json{{"token", admin_token()}}.dump();
  const auto session = post("/api/v1/session", body, "Origin: https://shoal.example\r\n");
  EXPECT_THAT(session.header("set-cookie"), HasSubstr("; Secure"));
  EXPECT_EQ(log_in(admin_token()).header("set-cookie").find("Secure"), std::string::npos);
}

TEST_F(PeopleRoutes, ATicketIsALinkThatWorksOnce) {
  const auto ticket = post("/api/v1/tickets", "", login_of("ada", {Scope::kViewer}));
  ASSERT_EQ(ticket.status, 201) << ticket.body;
  const std::string body = json{{"ticket", ticket.json()["ticket"]}}.dump();
  EXPECT_EQ(post("/api/v1/session", body).json()["name"], "ada");
  expect_problem(post("/api/v1/session", body), 401, "unauthenticated");
}

TEST_F(PeopleRoutes, ATokenIsMadeListedAndRevoked) {
  const auto made =
      post("/api/v1/tokens", R"({"name":"ada","scope":"submitter,metrics","ttl_s":3600})");
  ASSERT_EQ(made.status, 201) << made.body;
  const std::string id = made.json()["id"],
                    login =
                        "Authorization: Bearer " + made.json()["token"].get<std::string>() + "\r\n";
  EXPECT_EQ(get("/api/v1/session", login).json()["scope"], "submitter,metrics");
  const auto listed = get("/api/v1/tokens");
  EXPECT_EQ(listed.body.find("shoalapi1"), std::string::npos);
  EXPECT_EQ(listed.json()["items"].back()["name"], "ada");
  EXPECT_EQ(listed.json()["items"].back()["state"], "works");
  EXPECT_EQ(remove("/api/v1/tokens/" + id).json()["state"], "revoked");
  expect_problem(get("/api/v1/session", login), 401, "unauthenticated");
  expect_problem(remove("/api/v1/tokens/" + id), 404, "not-found");
  expect_problem(remove("/api/v1/tokens/nonsense"), 404, "not-found");
}

TEST_F(PeopleRoutes, WhatATokenMayNotBeIsNamed) {
  const std::pair<const char*, const char*> bad[] = {
      {R"({"name":"a b","scope":"viewer","ttl_s":60})", "/name"},
      {R"({"name":"ada","scope":"root","ttl_s":60})", "/scope"},
      {R"({"name":"ada","scope":"viewer","ttl_s":0})", "/ttl_s"},
      {R"({"name":"ada","scope":"viewer","ttl_s":99999999999})", "/ttl_s"},
      {R"({"name":"ada","scope":"viewer"})", "/ttl_s"}};
  for (const auto& [body, pointer] : bad)
    EXPECT_EQ(post("/api/v1/tokens", body).json()["errors"][0]["pointer"], pointer) << body;
}

TEST_F(PeopleRoutes, ChangesAreInTheAuditTrail) {
  ASSERT_EQ(post("/api/v1/jobs/alpha/pause", "", login_of("ada", {Scope::kOperator})).status, 202);
  const json paused = newest_audit();
  EXPECT_EQ(paused["principal"], "ada");
  EXPECT_TRUE(paused["token"].get<std::string>().starts_with("tok_"));
  EXPECT_EQ(paused["action"], "pause_job");
  EXPECT_EQ(paused["object"], "job_7");
  EXPECT_EQ(paused["before"], "run");
  EXPECT_EQ(paused["after"], "pause");
  ASSERT_EQ(log_in(admin_token()).status, 200);
  EXPECT_EQ(newest_audit()["action"], "log_in");
  EXPECT_EQ(newest_audit()["principal"], "admin");
  const json before = newest_audit();
  post("/api/v1/jobs?dry_run=true", R"({"name":"tried","data":{"train":"/x.txt"}})");
  post("/api/v1/jobs/nothing/cancel", "");
  remove("/api/v1/session", "Cookie: none=1\r\n");
  EXPECT_EQ(newest_audit(), before) << "what changes nothing is not noted";
}

}  // namespace
}  // namespace shoal::coordinator::rest
