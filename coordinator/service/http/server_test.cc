// The server seen from outside: connections, limits, refusals, start and stop. What the routes
// answer is in api_test.cc.
#include "coordinator/service/http/server.h"

#include <future>

#include <gmock/gmock.h>

#include "coordinator/service/http/server_test_util.h"
#include "threads/mutex.h"

namespace shoal::coordinator {
namespace {

using testing::ask;
using testing::Client;
using ::testing::HasSubstr;
using testing::MemoryCluster;
using testing::Received;

class ServerTest : public testing::ServerFixture {};

TEST_F(ServerTest, AnswersSeveralRequestsOnOneConnection) {
  start();
  Client client(address_);
  for (int i = 0; i < 3; ++i) {
    const Received received = client.ask("GET", "/livez");
    EXPECT_EQ(received.status, 200);
    EXPECT_EQ(received.body, "ok\n");
    EXPECT_EQ(received.header("connection"), "keep-alive");
    EXPECT_EQ(received.header("x-content-type-options"), "nosniff");
    EXPECT_THAT(received.header("content-security-policy"), HasSubstr("frame-ancestors 'none'"));
  }
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  start();
  Client client(address_);
  const std::string head = " HTTP/1.1\r\nHost: localhost\r\n" + testing::login_line() + "\r\n";
  client.send("GET /livez" + head + "GET /api/v1/jobs/alpha" + head + "GET /nothing" + head);
  EXPECT_EQ(client.receive().body, "ok\n");
  EXPECT_EQ(client.receive().json()["name"], "alpha");
  EXPECT_EQ(client.receive().status, 404);
}

TEST_F(ServerTest, HeadHasNoBodyAndOptionsSaysWhatIsAllowed) {
  start();
  Client client(address_);
  const Received head = client.ask("HEAD", "/api/v1/jobs");
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.header("content-length"), "0");
  EXPECT_EQ(client.ask("OPTIONS", "/api/v1/jobs").header("allow"), "POST, GET, HEAD, OPTIONS");
  EXPECT_EQ(client.ask("OPTIONS", "/api/v1/jobs?limit=1").status, 204) << "of the path alone";
  EXPECT_EQ(client.ask("OPTIONS", "*").status, 204);
  expect_problem(client.ask("OPTIONS", "/api/v1/nothing"), 404, "not-found");
  EXPECT_EQ(ask(address_, "HEAD", "/api/v1/events/stream").status, 200);
}

TEST_F(ServerTest, UnknownPathsAndMethodsAreProblems) {
  start();
  expect_problem(ask(address_, "GET", "/api/v1/nothing"), 404, "not-found");
  // A client of another version learns which one does not know what it asks for.
  const std::string hint = ask(address_, "GET", "/api/v1/nothing").json()["hint"];
  const std::string version = ask(address_, "GET", "/api/v1/version").json()["version"];
  EXPECT_TRUE(hint.ends_with(", " + version)) << hint;
  expect_problem(ask(address_, "GET", "/api/v1/jobs/"), 404, "not-found");
  const Received received = ask(address_, "PUT", "/api/v1/jobs/alpha");
  expect_problem(received, 405, "method-not-allowed");
  EXPECT_EQ(received.header("allow"), "GET, HEAD, PATCH, DELETE, OPTIONS");
  expect_problem(ask(address_, "GET", "/api/v1/jobs?page=2"), 400, "invalid-request");
  expect_problem(ask(address_, "GET", "/api/v1/jobs?x=%zz"), 400, "invalid-request");
}

TEST_F(ServerTest, TheProblemTypeIsAPage) {
  start();
  const std::string type = ask(address_, "GET", "/nothing").json()["type"];
  const Received page = ask(address_, "GET", type);
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.header("content-type"), HasSubstr("text/html"));
  EXPECT_EQ(ask(address_, "GET", "/problems/no-such").status, 404);
}

TEST_F(ServerTest, RefusesForeignHostsAndOrigins) {
  start();
  const Received foreign = ask(address_, "GET", "/livez", "Host: evil.example\r\n");
  expect_problem(foreign, 421, "host-not-allowed");
  EXPECT_THAT(foreign.json()["hint"].get<std::string>(), HasSubstr("--public-url"));
  expect_problem(
      ask(address_, "POST", "/api/v1/jobs/alpha/cancel", "Origin: http://evil.example\r\n"), 403,
      "origin-not-allowed");
  EXPECT_EQ(
      ask(address_, "POST", "/api/v1/jobs/alpha/cancel", "Origin: http://localhost\r\n").status,
      202);
  EXPECT_EQ(ask(address_, "GET", "/livez", "Host: " + address_ + "\r\n").status, 200);
}

TEST_F(ServerTest, RefusesABodyOverTheLimitBeforeReadingIt) {
  start();
  Client client(address_);
  client.send(
      "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 99999999\r\n\r\n");
  expect_problem(client.receive(), 413, "body-too-large");
  EXPECT_TRUE(client.closed());
}

TEST_F(ServerTest, RefusesAnEndlessBodyInChunks) {
  HttpOptions options;
  options.body_max = Bytes(4096);
  start(std::move(options));
  Client client(address_);
  std::string text =
      "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 10; ++i) text += "400\r\n" + std::string(1024, 'x') + "\r\n";
  client.send(text);
  expect_problem(client.receive(), 413, "body-too-large");
}

TEST_F(ServerTest, RefusesALongHeaderAndWhatIsNotHttp) {
  start();
  Client large(address_);
  large.send("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + std::string(40'000, 'x') +
             "\r\n\r\n");
  expect_problem(large.receive(), 431, "header-too-large");
  Client garbage(address_);
  garbage.send("\x16\x03\x01 this is not HTTP\r\n\r\n");
  expect_problem(garbage.receive(), 400, "invalid-request");
  EXPECT_TRUE(garbage.closed());
}

TEST_F(ServerTest, ContinuesWhenTheClientAsksFirst) {
  start();
  Client client(address_);
  client.send(
      "POST /api/v1/jobs?dry_run=true HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n" +
      testing::login_line() + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n");
  std::string text;
  EXPECT_TRUE(client.read_until(text, "100 Continue\r\n\r\n"));
  client.send("{}");
  EXPECT_EQ(client.receive().status, 422);
}

TEST_F(ServerTest, EchoesAPlainRequestId) {
  start();
  EXPECT_EQ(ask(address_, "GET", "/livez", "X-Request-Id: abc-1\r\n").header("x-request-id"),
            "abc-1");
  const std::string longest(64, 'x');
  for (const std::string& plain : {std::string("a_b.C-9"), longest}) {
    EXPECT_EQ(
        ask(address_, "GET", "/livez", "X-Request-Id: " + plain + "\r\n").header("x-request-id"),
        plain);
  }
  for (const std::string& other : {std::string("<script>"), longest + "x"}) {
    EXPECT_THAT(
        ask(address_, "GET", "/livez", "X-Request-Id: " + other + "\r\n").header("x-request-id"),
        ::testing::StartsWith("req_"));
  }
}

TEST_F(ServerTest, ClosesAClientThatSendsTooSlowly) {
  HttpOptions options;
  options.read_limit = milliseconds(100);
  start(std::move(options));
  Client client(address_);
  client.send("GET /livez HT");
  EXPECT_TRUE(client.closed());
}

TEST_F(ServerTest, OneConnectionTooManyIsTold) {
  HttpOptions options;
  options.connections_max = 2;
  options.streams_max = 1;
  start(std::move(options));
  Client first(address_), second(address_);
  EXPECT_EQ(first.ask("GET", "/livez").status, 200);
  EXPECT_EQ(second.ask("GET", "/livez").status, 200);
  expect_problem(Client(address_).ask("GET", "/api/v1/jobs"), 503, "overloaded");
}

TEST_F(ServerTest, ReadyzReportsAnAgentsPortThatAcceptsNobody) {
  HttpOptions options;
  options.agents_port = [] {
    return Status(Error{Code::kUnavailable, "no handshake within 5 s", "", ""});
  };
  start(options);
  const auto answer = get("/readyz?verbose=true");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "not ready\nagents_port: no handshake within 5 s\n");
  EXPECT_EQ(get("/livez").status, 200);
}

TEST_F(ServerTest, ProbesAreAnsweredWhenNoConnectionIsLeft) {
  HttpOptions options;
  options.connections_max = options.streams_max = 1;
  options.clients.probes_max = options.clients.probes_per_client = 1;
  start(std::move(options));
  Client first(address_);
  EXPECT_EQ(first.ask("GET", "/livez").status, 200);
  for (const char* probe : {"/livez", "/readyz", "/healthz"}) {
    Client beyond(address_);
    const Received received = beyond.ask("GET", probe);
    EXPECT_EQ(received.status, 200) << probe;
    EXPECT_EQ(received.header("connection"), "close");
    EXPECT_TRUE(beyond.closed());
  }
  Client silent(address_);
  EXPECT_TRUE(silent.closed()) << "it does not keep the place of a probe";
}

TEST_F(ServerTest, AClientThatAsksTooOftenIsToldWhenToAskAgain) {
  HttpOptions options;
  options.clients.this_host.requests_burst = 2;
  options.clients.this_host.requests_per_s = 1;
  start(std::move(options));
  Client client(address_);
  EXPECT_EQ(client.ask("GET", "/api/v1/jobs").status, 200);
  EXPECT_EQ(client.ask("GET", "/nothing").status, 404);
  const Received refused = client.ask("GET", "/api/v1/jobs");
  expect_problem(refused, 429, "too-many-requests");
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(client.ask("GET", "/livez").status, 200) << "probes do not count";
}

TEST_F(ServerTest, BodiesOfOneClientDoNotFillTheMemory) {
  HttpOptions options;
  options.clients.this_host.bodies = Bytes(2000);
  start(std::move(options));
  const std::string head =
      "POST /api/v1/jobs?dry_run=true HTTP/1.1\r\nHost: localhost\r\nContent-Length: ";
  Client first(address_), second(address_);
  first.send(head + "1500\r\n\r\n");
  EXPECT_EQ(ask(address_, "GET", "/livez").status, 200);
  second.send(head + "1500\r\n\r\n");
  expect_problem(second.receive(), 503, "overloaded");
  Client endless(address_);
  endless.send(
      "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  expect_problem(endless.receive(), 503, "overloaded");
}

TEST_F(ServerTest, AJobHasALengthThatItMayHave) {
  start();
  const std::string long_text = "# " + std::string(64 << 10, 'x') + "\nname = \"long\"\n";
  const Received refused = ask(address_, "POST", "/api/v1/jobs?dry_run=true",
                               "Content-Type: application/toml\r\n", long_text);
  expect_problem(refused, 413, "body-too-large");
  EXPECT_THAT(refused.json()["detail"].get<std::string>(), HasSubstr("65536"));
}

TEST_F(ServerTest, AnAgentThatIsGoneCanBeForgotten) {
  start();
  {
    const MutexLock lock(cluster_.tables.mutex);
    cluster_.tables.agents.at(2).state = AgentState::kGone;
  }
  expect_problem(ask(address_, "DELETE", "/api/v1/agents/agent-1"), 409, "conflict");
  const Received forgotten = ask(address_, "DELETE", "/api/v1/agents/agent-2");
  ASSERT_EQ(forgotten.status, 200) << forgotten.body;
  EXPECT_EQ(forgotten.json()["name"], "agent-2") << "as it was";
  expect_problem(get("/api/v1/agents/agt_2"), 404, "not-found");
}

TEST_F(ServerTest, AFailingStoreIsAProblemAndNotACrash) {
  start();
  {
    const MutexLock lock(cluster_.tables.mutex);
    cluster_.tables.broken = Error{Code::kInternal, "disk I/O error", "", ""};
  }
  expect_problem(ask(address_, "GET", "/api/v1/jobs"), 500, "internal");
  EXPECT_EQ(ask(address_, "GET", "/livez").status, 200);
}

TEST_F(ServerTest, ACommandThatIsNeverAnsweredTimesOut) {
  HttpOptions options;
  options.answer_limit = milliseconds(50);
  cluster_.answer_commands = false;
  start(std::move(options));
  Client client(address_);
  expect_problem(client.ask("POST", "/api/v1/jobs/alpha/cancel"), 504, "timed-out");
  EXPECT_EQ(client.ask("GET", "/livez").status, 200);
}

TEST_F(ServerTest, StopLetsAnAnswerInFlightFinish) {
  std::promise<void> asked, go;
  start();
  {
    const MutexLock lock(cluster_.tables.mutex);
    cluster_.tables.before_answer = [&asked, gate = go.get_future().share(),
                                     once = std::make_shared<bool>()] {
      if (!std::exchange(*once, true)) asked.set_value();
      gate.wait();
    };
  }
  Client client(address_), idle(address_);
  EXPECT_EQ(idle.ask("GET", "/livez").status, 200);
  client.send("GET /api/v1/jobs/alpha HTTP/1.1\r\nHost: localhost\r\n" + testing::login_line() +
              "\r\n");
  asked.get_future().wait();
  auto stopped = std::async(std::launch::async, [&] { server_->stop(); });
  EXPECT_TRUE(idle.closed());
  go.set_value();
  const Received received = client.receive();
  EXPECT_EQ(received.status, 200);
  EXPECT_EQ(received.header("connection"), "close");
  stopped.wait();
  server_->stop();  // a second call does nothing
}

TEST_F(ServerTest, ALateClusterAnswerFallsIntoTheVoid) {
  struct LateCluster : MemoryCluster {
    void cancel(JobId, std::function<void(Answer)> done) override {
      kept = std::move(done);
      asked.set_value();
    }
    std::function<void(Answer)> kept;
    std::promise<void> asked;
  } late;
  testing::fill(late);
  HttpOptions options;
  options.bind = "127.0.0.1:0";
  options.drain_limit = milliseconds(50);
  options.people = &people();
  auto server = HttpServer::start(options, late);
  ASSERT_TRUE(server.ok());
  Client client(server.value()->address());
  client.send(
      "POST /api/v1/jobs/alpha/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
      "Authorization: Bearer " +
      admin_token() + "\r\n\r\n");
  late.asked.get_future().wait();
  server.value().reset();
  late.kept({JobId(7), {}});
  EXPECT_TRUE(client.closed());
}

TEST_F(ServerTest, APortInUseIsNamedWithTheRemedy) {
  start();
  HttpOptions options;
  options.bind = address_;
  const auto second = HttpServer::start(options, cluster_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kConflict);
  EXPECT_THAT(second.error().message, HasSubstr(address_));
  EXPECT_FALSE(second.error().remedy.empty());
}

// What they may do there: Guard.NoSecretTravelsInClear.
TEST_F(ServerTest, ListensToOthers) {
  HttpOptions options;
  options.bind = "0.0.0.0:0";
  EXPECT_TRUE(HttpServer::start(options, cluster_).ok());
}

TEST(HttpOptions, RulesBetweenFields) {
  EXPECT_TRUE(validate(HttpOptions{}).empty());
  HttpOptions options;
  options.streams_max = options.connections_max + 1;
  options.threads = 0;
  EXPECT_EQ(validate(options).size(), 2u);
}

}  // namespace
}  // namespace shoal::coordinator
