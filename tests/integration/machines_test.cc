// Machines from outside: `shoal up` needs no further step; who has no certificate, one of another
// cluster or one that was revoked stays out; certificates are renewed and the CA is replaced while
// a job trains.
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/integration/cluster.h"
#include "threads/file_content.h"

namespace shoal::integration {
namespace {

constexpr int kRefused = 4;  // exit code of an agent that the coordinator refuses

class Machines : public testing::Test {
 protected:
  void start(int agents, const std::vector<std::string>& options = {}) {
    if (!has_binary("shoal-agent") || !has_binary("shoal-coordinator"))
      GTEST_SKIP() << "the daemons were not built";
    cluster_ = std::make_unique<Cluster>(agents, options);
    ASSERT_EQ(cluster_->problem(), "");
  }
  // An agent that is expected to end by itself.
  Finished agent(const std::string& token, const std::string& data, const std::string& grpc = {}) {
    const auto& at = cluster_->state().addresses;
    return run(command_of({.grpc = grpc.empty() ? at.grpc : grpc,
                           .enrol = at.http.substr(at.http.find("://") + 3),
                           .token = token,
                           .data = cluster_->folder().path(data),
                           .name = data}),
               60);
  }
  std::string new_token(const std::vector<std::string>& options) {
    std::vector<std::string> command = {"token", "create", "--join"};
    command.insert(command.end(), options.begin(), options.end());
    const Finished made = cluster_->shoal(command);
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return made.out.substr(0, made.out.find('\n'));
  }
  void expect_refused(const Finished& agent, const std::string& word) {
    EXPECT_EQ(agent.exit_code, kRefused) << agent.err;
    EXPECT_NE(agent.err.find(word), std::string::npos) << agent.err;
  }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(Machines, AHostWithoutATokenThatWorksStaysOut) {
  start(1);
  const std::string used_up = new_token({"--uses", "1", "--ttl", "1h"});
  ASSERT_EQ(cluster_->shoal({"token", "rm", "join_2"}).exit_code, 0);
  expect_refused(agent(used_up, "late"), "revoked");
  std::string forged = new_token({});
  forged.back() = forged.back() == '0' ? '1' : '0';
  expect_refused(agent(forged, "forged"), "does not know");
  std::string foreign = new_token({});
  foreign.replace(std::string("shoaljoin1.").size(), 64, std::string(64, '0'));
  expect_refused(agent(foreign, "foreign"), "foreign CA");
  EXPECT_EQ(cluster_->items("/agents").size(), 1u);
}

TEST_F(Machines, ARevokedAgentLeavesAndDoesNotComeBack) {
  start(2);
  const Finished revoked = cluster_->shoal({"agent", "revoke", "agent-2"});
  ASSERT_EQ(revoked.exit_code, 0) << revoked.err;
  ASSERT_TRUE(eventually(30, [&] { return !cli::is_alive(cluster_->state().agents[1]); }));
  EXPECT_NE(file_content(cluster_->state().agents[1].log).value_or("").find("revoked"),
            std::string::npos);
  EXPECT_EQ(cluster_->shoal({"agent", "revoke", "agent-2"}).exit_code, cli::kExitConflict);
}

TEST_F(Machines, CertificatesAreRenewedAndTheCaIsReplacedWhileAJobTrains) {
  if (!has_binary("shoal-trainer")) GTEST_SKIP() << "shoal-trainer was not built";
  ::setenv("SHOAL_CERTIFICATE_LIFE_S", "6", 1);
  start(2);
  ::unsetenv("SHOAL_CERTIFICATE_LIFE_S");
  TinyJob tiny;
  tiny.steps = 4000;
  ASSERT_EQ(cluster_->shoal({"job", "submit", cluster_->write_job(tiny)}).exit_code, 0);
  ASSERT_TRUE(eventually(60, [&] { return cluster_->rounds_committed("tiny") >= 1; }));
  const std::string file = cluster_->agent_folder(0) + "/machine.pem";
  const std::string first = file_content(file).value_or("");
  ASSERT_TRUE(eventually(30, [&] { return file_content(file).value_or("") != first; }))
      << "not renewed";
  ASSERT_EQ(cluster_->shoal({"ca", "rotate"}).exit_code, 0);
  const auto moved = [&] {
    const auto all = cluster_->api().get("/authorities");
    if (!all.ok() || all->at("items").size() != 2) return false;
    return all->at("items")[0]["machines"] == 0 && all->at("items")[1]["machines"] == 2;
  };
  ASSERT_TRUE(eventually(30, moved)) << "agents do not come to the new CA";
  const double rounds = cluster_->rounds_committed("tiny");
  ASSERT_TRUE(eventually(60, [&] { return cluster_->rounds_committed("tiny") > rounds + 1; }));
  // A new session, with the new certificate, to a coordinator that shows its new one.
  cluster_->kill_coordinator();
  ASSERT_TRUE(cluster_->restart_coordinator());
  const double before = cluster_->rounds_committed("tiny");
  EXPECT_TRUE(eventually(60, [&] { return cluster_->rounds_committed("tiny") > before + 1; }));
}

}  // namespace
}  // namespace shoal::integration
