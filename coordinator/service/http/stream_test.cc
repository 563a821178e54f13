// Event streams from outside: order, resume without gaps, reset, filters, NDJSON, slow and gone
// clients.
#include <chrono>
#include <thread>

#include "coordinator/service/http/server_test_util.h"
#include "threads/mutex.h"

namespace shoal::coordinator {
namespace {

using testing::Client;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::parse_sse;

class StreamTest : public testing::ServerFixture {
 protected:
  static void open(Client& client, const std::string& query = {}, const std::string& headers = {}) {
    const bool shows = headers.find("Authorization:") != std::string::npos;
    const std::string login = shows ? std::string() : testing::login_line();
    client.send("GET /api/v1/events/stream" + query + " HTTP/1.1\r\nHost: localhost\r\n" + login +
                headers + "\r\n");
  }
  static std::string body_of(const std::string& text) {
    return text.substr(text.find("\r\n\r\n") + 4);
  }

  // The value of one metric line, -1 when it is not there.
  double metric(const std::string& name) {
    const std::string text = "\n" + get("/metrics").body;
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }

  // Asks again until the metric has the value, for ten seconds at most.
  bool comes_to(const std::string& name, double value) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (metric(name) != value) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }
};

TEST_F(StreamTest, BeginsWithNewEventsAndFollows) {
  start();
  Client client(address_);
  open(client);
  std::string text;
  ASSERT_TRUE(client.read_until(text, "retry: 3000\n\n"));
  EXPECT_THAT(text, HasSubstr("Content-Type: text/event-stream"));
  cluster_.add_event("round_committed", JobId(7), "round 3");
  ASSERT_TRUE(client.read_until(text, "id: 4\n"));
  ASSERT_TRUE(client.read_until(text, "round 3"));
  EXPECT_THAT(text, Not(HasSubstr("id: 3\n")));
}

TEST_F(StreamTest, ResumesWithoutAGapWhileEventsKeepComing) {
  start();
  std::jthread writer([this] {
    for (int i = 0; i < 2000; ++i) cluster_.add_event("tick", JobId(7), "event");
  });
  std::vector<testing::SseEvent> all;
  std::string last;
  for (int part = 1; part <= 4; ++part) {  // four connections, each cut off somewhere
    Client client(address_);
    open(client, last.empty() ? "?from=0" : "",
         last.empty() ? "" : "Last-Event-ID: " + last + "\r\n");
    std::string text;
    ASSERT_TRUE(client.read_until(text, "id: " + std::to_string(part * 500) + "\n"));
    for (auto& event : parse_sse(body_of(text))) {
      all.push_back(event);
      last = event.id;
    }
  }
  ASSERT_GE(all.size(), 1900u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].id, std::to_string(i + 1));
    EXPECT_EQ(nlohmann::json::parse(all[i].data)["seq"], i + 1);
  }
}

TEST_F(StreamTest, AnUnknownResumePointIsReset) {
  start();
  for (const std::string from : {"999", "abc", "-5"}) {
    Client client(address_);
    open(client, "", "Last-Event-ID: " + from + "\r\n");
    std::string text;
    ASSERT_TRUE(client.read_until(text, "event: reset\n")) << from;
    ASSERT_TRUE(client.read_until(text, "}\n\n"));
    EXPECT_EQ(parse_sse(body_of(text))[0].id, "3");
  }
}

TEST_F(StreamTest, AnOldResumePointThatWasPrunedIsReset) {
  start();
  {
    const MutexLock lock(cluster_.tables.mutex);
    cluster_.tables.events.erase(1);
    cluster_.tables.events.erase(2);
  }
  Client pruned(address_), kept(address_);
  std::string text;
  open(pruned, "?from=1");
  EXPECT_TRUE(pruned.read_until(text, "event: reset\n"));
  text.clear();
  open(kept, "?from=2");
  EXPECT_TRUE(kept.read_until(text, "id: 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("reset")));
}

TEST_F(StreamTest, FiltersByJobAndSeverity) {
  start();
  Client client(address_);
  open(client, "?job=alpha&severity=warning&from=0");
  std::string text;
  ASSERT_TRUE(client.read_until(text, "id: 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("id: 1\n")));
  cluster_.add_event("agent_gone", {}, "other", Severity::kError);
  cluster_.add_event("job_phase", JobId(7), "failed", Severity::kError);
  ASSERT_TRUE(client.read_until(text, "id: 5\n"));
  EXPECT_THAT(text, Not(HasSubstr("id: 4\n")));
  expect_problem(get("/api/v1/events/stream?job=gamma"), 404, "not-found");
}

TEST_F(StreamTest, GivesNdjsonWhenAsked) {
  start();
  Client client(address_);
  open(client, "?from=1", "Accept: application/x-ndjson\r\n");
  std::string text;
  ASSERT_TRUE(client.read_until(text, "out of memory"));
  ASSERT_TRUE(client.read_until(text, "}\n"));
  const std::string body = body_of(text);
  EXPECT_EQ(nlohmann::json::parse(body.substr(0, body.find('\n')))["seq"], 2);
}

TEST_F(StreamTest, ASilentStreamHasHeartbeats) {
  HttpOptions options;
  options.heartbeat_every = milliseconds(20);
  start(std::move(options));
  Client client(address_);
  open(client);
  std::string text;
  EXPECT_TRUE(client.read_until(text, ": heartbeat\n\n: heartbeat\n\n"));
}

// After a heartbeat nothing is being looked for: the stream must be told.
TEST_F(StreamTest, AnEventAfterASilenceArrivesAtOnce) {
  HttpOptions options;
  options.heartbeat_every = milliseconds(20);
  start(std::move(options));
  Client client(address_);
  open(client);
  std::string text;
  for (int i = 4; i < 7; ++i) {
    text.clear();
    ASSERT_TRUE(client.read_until(text, ": heartbeat\n\n: heartbeat\n\n"));
    cluster_.add_event("tick", JobId(7), "event");
    ASSERT_TRUE(client.read_until(text, "id: " + std::to_string(i) + "\n"));
  }
}

TEST_F(StreamTest, EventsThatAreFilteredOutDoNotPutOffTheHeartbeat) {
  HttpOptions options;
  options.heartbeat_every = milliseconds(50);
  start(std::move(options));
  Client client(address_);
  open(client, "?job=beta");
  std::jthread writer([this](std::stop_token stop) {
    while (!stop.stop_requested()) cluster_.add_event("tick", JobId(7), "not of this job");
  });
  std::string text;
  EXPECT_TRUE(client.read_until(text, ": heartbeat\n\n: heartbeat\n\n"));
}

TEST_F(StreamTest, ASlowReaderIsDroppedAndOthersAreNot) {
  HttpOptions options;
  options.write_limit = seconds(5);  // the fast one may be kept from its processor for a while
  start(std::move(options));
  Client slow(address_, 4096), fast(address_);
  open(slow);
  open(fast);
  std::string text;
  ASSERT_TRUE(fast.read_until(text, "retry"));
  const std::string large(20'000, 'x');
  for (int i = 0; i < 500; ++i) cluster_.add_event("tick", JobId(7), large);
  EXPECT_TRUE(fast.read_until(text, "id: 503\n"));
  EXPECT_TRUE(comes_to("shoal_http_stream_dropped_total{reason=\"slow\"}", 1));
  EXPECT_TRUE(slow.closed());
}

TEST_F(StreamTest, StreamsAreCountedLimitedAndFreed) {
  HttpOptions options;
  options.streams_max = 1;
  start(std::move(options));
  {
    Client client(address_);
    open(client);
    std::string text;
    ASSERT_TRUE(client.read_until(text, "retry"));
    EXPECT_EQ(metric("shoal_http_streams"), 1);
    expect_problem(get("/api/v1/events/stream"), 503, "overloaded");
  }
  EXPECT_TRUE(comes_to("shoal_http_streams", 0));
  Client again(address_);
  open(again);
  std::string text;
  EXPECT_TRUE(again.read_until(text, "retry"));
}

TEST_F(StreamTest, StopEndsStreams) {
  start();
  Client client(address_);
  open(client);
  std::string text;
  ASSERT_TRUE(client.read_until(text, "retry"));
  server_->stop();
  EXPECT_TRUE(client.closed());
}

TEST_F(StreamTest, EndsWithTheLoginOfWhoReads) {
  HttpOptions options;
  options.heartbeat_every = milliseconds(20);
  start(std::move(options));
  const auto made = people().create_token("ada", {identity::Scope::kViewer}, seconds(3600));
  Client told(address_);
  open(told, {}, "Authorization: Bearer " + made->text + "\r\n");
  std::string text;
  ASSERT_TRUE(told.read_until(text, ": heartbeat"));
  ASSERT_TRUE(people().revoke_token(made->record.id).ok());
  EXPECT_TRUE(told.closed());
  expect_problem(get("/api/v1/events/stream", "Authorization: Bearer " + made->text + "\r\n"), 401,
                 "unauthenticated");
}

}  // namespace
}  // namespace shoal::coordinator
