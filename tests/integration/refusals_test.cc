// A port turns away everything that has no right to it, before any content, and counted: what a
// stranger, a browser that was led astray, somebody with a wrong token, and hosts, agents and
// replicas with every kind of wrong certificate try on each port of a cluster that trains. The
// table is docs/refusals.md, and each row of it is one of these probes.
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "cli/http_client.h"
#include "identity/private_file.h"
#include "tests/integration/strangers.h"
#include "threads/file_content.h"

namespace shoal::integration {
namespace {

using cli::text_at;

struct Probe {
  const char* port;    // as the metric calls it
  std::string what;    // a row of the page
  const char* reason;  // with which it is counted
  std::function<bool()> is_refused;
};

std::string bearer(const std::string& token) { return "Authorization: Bearer " + token + "\r\n"; }

// A cluster of three agents on which a job trains; the third was revoked meanwhile.
class Refusals : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
    cluster_ = std::make_unique<Cluster>(3);
    ASSERT_EQ(cluster_->problem(), "");
    TinyJob tiny;
    tiny.steps = 1'000'000;
    ASSERT_EQ(cluster_->shoal({"job", "submit", cluster_->write_job(tiny)}).exit_code, 0);
    ASSERT_TRUE(eventually(90, [&] { return all_serve(3); }));
    forger_.emplace(*cluster_);
    replicas_ = replicas_with_last("agent-3");
    http_ = cluster_->state().addresses.http;
    http_ = http_.substr(http_.find("://") + 3);
    agents_ = cluster_->state().addresses.grpc;
    ASSERT_EQ(cluster_->shoal({"agent", "revoke", "agent-3"}).exit_code, 0);
    const double rounds = cluster_->rounds_committed("tiny");
    ASSERT_TRUE(eventually(90, [&] { return cluster_->rounds_committed("tiny") > rounds + 2; }))
        << "the others do not continue";
  }
  // The replicas of the job with that of the last agent at the end; ids do not follow from names.
  Json replicas_with_last(const std::string& name) const {
    std::string id;
    for (const Json& agent : cluster_->items("/agents"))
      if (text_at(agent, "name") == name) id = text_at(agent, "id");
    Json first = Json::array(), last = Json::array();
    for (const Json& replica : cluster_->items("/jobs/tiny/replicas"))
      (text_at(replica, "agent") == id ? last : first).push_back(replica);
    for (Json& replica : last) first.push_back(std::move(replica));
    return first;
  }
  bool all_serve(std::size_t count) const {
    std::size_t serving = 0;
    for (const Json& replica : cluster_->items("/jobs/tiny/replicas"))
      serving += text_at(replica, "state") == "serving" && !text_at(replica, "address").empty();
    return serving == count && cluster_->rounds_committed("tiny") >= 1;
  }

  // ---- what is counted

  double counted(const std::string& port, const std::string& reason) const {
    cli::HttpRequest request;
    request.url = cluster_->state().addresses.http + "/metrics";
    request.token = identity::read_token_file(cluster_->state().addresses.admin_token_file).value();
    const auto metrics = cli::send(request);
    const std::string name =
        "shoal_refused_total{port=\"" + port + "\",reason=\"" + reason + "\"} ";
    const std::size_t at = metrics.ok() ? metrics->body.find(name) : std::string::npos;
    EXPECT_TRUE(metrics.ok()) << to_string(metrics.error());
    if (metrics.ok()) {
      EXPECT_EQ(metrics->status, 200) << metrics->body;
    }
    return at == std::string::npos ? -1 : std::stod(metrics->body.substr(at + name.size()));
  }
  // Runs them, and waits until as many as there were are counted by their words.
  void expect_refused(const std::vector<Probe>& probes) {
    std::map<std::pair<std::string, std::string>, double> expected;
    for (const Probe& probe : probes) {
      const std::pair<std::string, std::string> series(probe.port, probe.reason);
      if (!expected.contains(series)) expected[series] = counted(probe.port, probe.reason);
      EXPECT_GE(expected[series], 0) << probe.port << " " << probe.reason << " is not exported";
    }
    for (const Probe& probe : probes) {
      EXPECT_TRUE(probe.is_refused()) << probe.port << ": " << probe.what;
      ++expected[{probe.port, probe.reason}];
      tried_.insert(probe.what);
    }
    for (const auto& [series, count] : expected) {
      const auto all_counted = [&] { return counted(series.first, series.second) >= count; };
      EXPECT_TRUE(eventually(20, all_counted))
          << series.first << " " << series.second << ": " << count << " expected, "
          << counted(series.first, series.second) << " counted";
    }
  }

  // ---- clients

  std::function<bool()> http(int status, const std::string& method, const std::string& path,
                             const std::string& headers = {}, const std::string& body = {}) {
    return [=, this] {
      const Answer answer = ask(http_, method, path, headers, body);
      const bool says_nothing = answer.body.find("/problems/") != std::string::npos ||
                                (method == "HEAD" && answer.body.empty());
      EXPECT_EQ(answer.status, status) << method << " " << path << ": " << answer.body;
      return answer.status == status && says_nothing && answer.body.size() < 2000;
    };
  }
  // Over TLS, as hosts do.
  std::function<bool()> join(const std::string& path, const Json& body) {
    return [=, this] {
      cli::HttpRequest request;
      request.method = "POST";
      request.url = "https://" + http_ + path;
      request.ca = cluster_->state().data_dir + "/coordinator/tls/roots.pem";
      request.content_type = "application/json";
      request.body = body.dump();
      const auto answer = cli::send(request);
      EXPECT_TRUE(answer.ok()) << to_string(answer.error());
      if (answer.ok()) {
        EXPECT_GE(answer->status, 400) << answer->body;
      }
      return answer.ok() && answer->status >= 400 && answer->status < 500 &&
             answer->body.find("BEGIN CERTIFICATE") == std::string::npos;
    };
  }
  Json enrolment(const std::string& token) const {
    const auto now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
    return {{"token", token},
            {"csr", identity::make_request(identity::PrivateKey::make())},
            {"uid", std::string(32, 'e')},
            {"name", "stranger"},
            {"clock_unix_ms", now_ms}};
  }
  std::string new_token(std::vector<std::string> options) {
    options.insert(options.begin(), {"token", "create"});
    const Finished made = cluster_->shoal(options);
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return made.out.substr(0, made.out.find('\n'));
  }
  std::function<bool()> session(std::optional<identity::Credentials> shown, int code,
                                const std::string& uid = std::string(32, 'e')) {
    return [=, this] {
      const Ended end = open_session(agents_, *forger_, shown, uid);
      EXPECT_EQ(end.code, code) << end.message;
      return end.code == code;
    };
  }
  std::function<bool()> peer(std::optional<identity::Credentials> shown,
                             const std::string& purpose = {}) {
    return [=, this] {
      return is_turned_away(text_at(replicas_.at(0), "address"), forger_->contexts(shown), purpose);
    };
  }
  identity::ReplicaName name_of(std::size_t index) const {
    const Json& replica = replicas_.at(index);
    const auto number = [&](const char* field) {
      const std::string text = text_at(replica, field);
      return std::stoull(text.substr(text.find('_') + 1));
    };
    return {AgentId(number("agent")), JobId(number("job")), 0, 0, ReplicaId(number("id"))};
  }
  // By the agent that has it: 1, 2, 3.

  std::vector<Probe> strangers_at_rest();
  std::vector<Probe> wrong_tokens();
  std::vector<Probe> joiners();
  std::vector<Probe> at_the_agents_port();
  std::vector<Probe> handshakes_of_peers();
  std::vector<Probe> streams_of_peers();

  std::unique_ptr<Cluster> cluster_;
  std::optional<Forger> forger_;
  std::vector<Json> replicas_;
  std::string http_, agents_;
  std::set<std::string> tried_;
};

// ---- REST

std::vector<Probe> Refusals::strangers_at_rest() {
  const char* const none = "unauthenticated";
  const std::string text = R"({"name":"mine"})";
  return {
      {"http", "GET of the jobs", none, http(401, "GET", "/api/v1/jobs")},
      {"http", "HEAD of the jobs", none, http(401, "HEAD", "/api/v1/jobs")},
      {"http", "POST of a job", none, http(401, "POST", "/api/v1/jobs", {}, text)},
      {"http", "PATCH of a job", none, http(401, "PATCH", "/api/v1/jobs/tiny", {}, text)},
      {"http", "DELETE of an agent", none, http(401, "DELETE", "/api/v1/agents/agent-1")},
      {"http", "PUT of a job", "malformed", http(405, "PUT", "/api/v1/jobs", {}, text)},
      {"http", "state of a job", none, http(401, "GET", "/api/v1/jobs/tiny/rounds")},
      {"http", "stream of events", none, http(401, "GET", "/api/v1/events/stream")},
      {"http", "log of a job", none, http(401, "GET", "/api/v1/jobs/tiny/logs")},
      {"http", "metrics", none, http(401, "GET", "/metrics")},
      {"http", "audit trail", none, http(401, "GET", "/api/v1/audit")},
      {"http", "revocation of an agent", none, http(401, "POST", "/api/v1/agents/agent-1/revoke")},
      {"http", "name of another host (DNS rebinding)", "forbidden",
       http(421, "GET", "/api/v1/jobs", "Host: evil.example\r\n")},
      {"http", "change from a page of another origin", "forbidden",
       http(403, "POST", "/api/v1/jobs", "Origin: https://evil.example\r\n", text)},
      {"http", "bytes that are no HTTP", "malformed",
       [this] {
         const Heard heard = say_raw(http_, "\x01\x02\x03 nonsense\r\n\r\n");
         return heard.closed && heard.bytes.find("400") != std::string::npos;
       }},
      {"http", "bytes that begin as TLS", "malformed",
       [this] { return say_raw(http_, std::string("\x16\x03\x01\x00\x05hello", 10)).closed; }},
  };
}

std::vector<Probe> Refusals::wrong_tokens() {
  const char* const none = "unauthenticated";
  const std::string made_up = "shoalapi1.tok_1." + std::string(64, '0');
  const std::string revoked = new_token({"--name", "eve", "--scope", "viewer", "--ttl", "1h"});
  EXPECT_EQ(cluster_->shoal({"token", "rm", revoked.substr(10, revoked.rfind('.') - 10)}).exit_code,
            0);
  const std::string expired = new_token({"--name", "ada", "--scope", "viewer", "--ttl", "1s"});
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // what it has to live
  const std::string viewer = new_token({"--name", "bob", "--scope", "viewer", "--ttl", "1h"});
  return {
      {"http", "token that was made up", none, http(401, "GET", "/api/v1/jobs", bearer(made_up))},
      {"http", "token that was revoked", none, http(401, "GET", "/api/v1/jobs", bearer(revoked))},
      {"http", "token that has expired", none, http(401, "GET", "/api/v1/jobs", bearer(expired))},
      {"http", "cookie that was made up", none,
       http(401, "GET", "/api/v1/jobs", "Cookie: shoal_session=shoalses1.ses_1.00\r\n")},
      {"http", "login with a token that was made up", none,
       http(401, "POST", "/api/v1/session", {}, R"({"token":")" + made_up + R"("})")},
      {"http", "viewer's token for a change", "forbidden",
       http(403, "POST", "/api/v1/agents/agent-1/revoke", bearer(viewer))},
      {"http", "viewer's token for the audit trail", "forbidden",
       http(403, "GET", "/api/v1/audit", bearer(viewer))},
  };
}

// ---- hosts that join

std::vector<Probe> Refusals::joiners() {
  const char* const none = "unauthenticated";
  const std::string removed = new_token({"--join", "--uses", "1", "--ttl", "1h"});
  const std::string id = removed.substr(removed.find(".join_") + 1);
  EXPECT_EQ(cluster_->shoal({"token", "rm", id.substr(0, id.find('.'))}).exit_code, 0);
  std::string forged = new_token({"--join", "--uses", "1", "--ttl", "1h"}), foreign = forged;
  forged.back() = forged.back() == '0' ? '1' : '0';
  foreign.replace(std::string("shoaljoin1.").size(), 64, std::string(64, '0'));
  Json renewal = enrolment("");
  renewal.erase("token"), renewal.erase("uid"), renewal.erase("name");
  renewal["proof"] = std::string(128, '0');
  renewal["chain"] = file_content(cluster_->agent_folder(2) + "/machine.pem").value_or("");
  Json of_nobody = renewal;
  of_nobody["chain"] = forger_->agent(forger_->foreign(), AgentId(1)).certificate.pem();
  return {
      {"join", "join without a token", "malformed", join("/api/v1/enrol", enrolment(""))},
      {"join", "join token that was removed", none, join("/api/v1/enrol", enrolment(removed))},
      {"join", "join token that was made up", none, join("/api/v1/enrol", enrolment(forged))},
      {"join", "another cluster's join token", none, join("/api/v1/enrol", enrolment(foreign))},
      {"join", "join token in clear", "forbidden",
       http(403, "POST", "/api/v1/enrol", {}, enrolment(forged).dump())},
      {"join", "renewal by a revoked agent", none, join("/api/v1/renew", renewal)},
      {"join", "renewal with a foreign certificate", none, join("/api/v1/renew", of_nobody)},
  };
}

// ---- the port for agents

std::vector<Probe> Refusals::at_the_agents_port() {
  constexpr int kUnavailable = 14, kUnauthenticated = 16, kDenied = 7;  // codes of gRPC
  const auto& own = forger_->own();
  const auto short_lived = forger_->agent(own, AgentId(1), seconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // what it has to live
  const auto with = [this](Ended (*open)(const std::string&, const Forger&,
                                         const std::optional<identity::Credentials>&),
                           std::optional<identity::Credentials> shown, int code) {
    return [=, this] { return open(agents_, *forger_, shown).code == code; };
  };
  const auto foreign = forger_->agent(forger_->foreign(), AgentId(1));
  const identity::Credentials revoked{
      *identity::PrivateKey::load(cluster_->agent_folder(2) + "/machine.key"),
      identity::Certificate::parse_chain(
          file_content(cluster_->agent_folder(2) + "/machine.pem").value_or(""))
          ->front(),
      {}};
  const identity::Credentials right{
      *identity::PrivateKey::load(cluster_->agent_folder(0) + "/machine.key"),
      identity::Certificate::parse_chain(
          file_content(cluster_->agent_folder(0) + "/machine.pem").value_or(""))
          ->front(),
      {}};
  return {
      {"agents", "HTTP/2 without TLS", "malformed",
       [this] { return say_raw(agents_, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").bytes.size() < 64; }},
      {"agents", "session without a certificate", "no_certificate",
       session(std::nullopt, kUnavailable)},
      {"agents", "upload without a certificate", "no_certificate",
       with(open_upload, std::nullopt, kUnavailable)},
      {"agents", "stream of logs without a certificate", "no_certificate",
       with(open_logs, std::nullopt, kUnavailable)},
      {"agents", "session with a foreign certificate", "foreign", session(foreign, kUnavailable)},
      {"agents", "session with an expired certificate", "expired",
       session(short_lived, kUnavailable)},
      {"agents", "session with a replica's certificate", "other_member",
       session(forger_->replica(own, name_of(0)), kUnavailable)},
      {"agents", "session of a revoked agent", "revoked", session(revoked, kUnauthenticated)},
      {"agents", "upload of a revoked agent", "revoked",
       with(open_upload, revoked, kUnauthenticated)},
      {"agents", "stream of logs of a revoked agent", "revoked",
       with(open_logs, revoked, kUnauthenticated)},
      {"agents", "another key with an agent's name", "revoked",
       session(forger_->agent(own, AgentId(1)), kUnauthenticated)},
      {"agents", "the right agent's certificate with another folder", "other_member",
       session(right, kDenied)},
      {"agents", "replay of a recorded handshake", "malformed",
       [=, this] {
         Tape tape(agents_);
         (void)open_session(tape.address(), *forger_, right, std::string(32, 'e'));
         const std::string again = tape.recorded();
         return again.size() > 500 && say_raw(agents_, again).closed;
       }},
  };
}

// ---- peers

std::vector<Probe> Refusals::handshakes_of_peers() {
  const std::string address = text_at(replicas_.at(0), "address");
  const auto& own = forger_->own();
  const auto second = forger_->replica(own, name_of(1));
  return {
      {"peers", "bytes that are no handshake", "malformed",
       [=] { return say_raw(address, std::string(64, 'x')).closed; }},
      {"peers", "frames without TLS", "malformed",
       [=] { return say_raw(address, std::string("hS") + std::string(60, '\0')).closed; }},
      {"peers", "HTTP/2 to a peer", "malformed",
       [=] { return say_raw(address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").closed; }},
      {"peers", "connection without a certificate", "no_certificate", peer(std::nullopt)},
      {"peers", "connection with a foreign certificate", "foreign",
       peer(forger_->replica(forger_->foreign(), name_of(1)))},
      {"peers", "connection with a certificate that is not valid now", "expired",
       peer(forger_->replica(own, name_of(1), seconds(7200)))},
      {"peers", "connection with an agent's certificate", "other_member",
       peer(forger_->agent(own, name_of(1).agent))},
      {"peers", "replica of a revoked agent", "revoked",
       [probe = peer(forger_->replica(own, name_of(2)))] {
         return eventually(10, probe);  // trainers hear of it with the next round
       }},
      {"peers", "replay of a recorded handshake with a peer", "malformed",
       [=, this] {
         Tape tape(address);
         (void)is_turned_away(tape.address(), forger_->contexts(second), "nothing");
         const std::string again = tape.recorded();
         const Heard heard = say_raw(address, again);
         return again.size() > 500 && heard.closed;
       }},
  };
}

std::vector<Probe> Refusals::streams_of_peers() {
  const char* const other = "other_member";
  const auto& own = forger_->own();
  const auto second = forger_->replica(own, name_of(1));
  identity::ReplicaName elsewhere = name_of(1), before = name_of(1);
  elsewhere.job = JobId(elsewhere.job.n + 7);
  before.epoch = 5;
  const auto of_other_job = forger_->replica(own, elsewhere);
  const auto of_other_epoch = forger_->replica(own, before);
  const auto reduce = [&](std::size_t as, std::int64_t epoch) {
    return "reduce " + std::to_string(name_of(as).replica.n) + " " +
           std::to_string(name_of(as).job.n) + " " + std::to_string(epoch) + " 1000000 1";
  };
  return {
      {"peers", "state for a replica of another job", other, peer(of_other_job, "state")},
      {"peers", "momentum for a replica of another job", other, peer(of_other_job, "momentum")},
      {"peers", "probe by a replica of another job", other, peer(of_other_job, "probe")},
      {"peers", "reduce by a replica of another job", other, peer(of_other_job, reduce(1, 0))},
      {"peers", "reduce in the name of another replica", other, peer(second, reduce(0, 0))},
      {"peers", "reduce of another epoch", other, peer(second, reduce(1, 5))},
      {"peers", "reduce with the certificate of another epoch", other,
       peer(of_other_epoch, reduce(1, 0))},
      {"peers", "exchange of a pipeline that is not served", other, peer(second, "pipeline 1 1 0")},
      {"peers", "purpose that nobody knows", "malformed", peer(second, "give up")},
  };
}

TEST_F(Refusals, EveryProbeIsTurnedAwayAndCounted) {
  expect_refused(strangers_at_rest());
  expect_refused(wrong_tokens());
  expect_refused(joiners());
  expect_refused(at_the_agents_port());
  expect_refused(handshakes_of_peers());
  expect_refused(streams_of_peers());
  EXPECT_GE(tried_.size(), 50U);

  // The audit trail tells what matters, a row for many.
  std::map<std::string, int> told;
  for (const Json& row : cluster_->items("/audit")) ++told[text_at(row, "action")];
  for (const char* action :
       {"refused_token", "refused_login", "refused_join", "refused_renewal", "refused_agent"}) {
    EXPECT_GE(told[action], 1) << action;
    EXPECT_LE(told[action], 8) << action;
  }
  int revocations = 0;
  for (const Json& event : cluster_->items("/events")) {
    revocations += text_at(event, "kind") == "agent_revoked";
  }
  EXPECT_EQ(revocations, 1);

  // And the job has not noticed.
  const double rounds = cluster_->rounds_committed("tiny");
  EXPECT_TRUE(eventually(60, [&] { return cluster_->rounds_committed("tiny") > rounds + 1; }));

  const std::string page = file_content(SHOAL_SOURCE_FOLDER "/docs/refusals.md").value_or("");
  for (const std::string& what : tried_) {
    EXPECT_NE(page.find("| " + what + " |"), std::string::npos)
        << "docs/refusals.md lacks " << what;
  }
}

}  // namespace
}  // namespace shoal::integration
