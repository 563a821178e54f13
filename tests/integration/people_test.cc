// People from outside: `shoal up` needs no further step; who has no token is told how to get one;
// tokens of each scope, logging in over TLS, and the audit trail.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "identity/private_file.h"
#include "tests/integration/cluster.h"

namespace shoal::integration {
namespace {

// The environment of this process and of those that it starts.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

class People : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_binary("shoal-agent") || !has_binary("shoal-coordinator"))
      GTEST_SKIP() << "the daemons were not built";
    cluster_ = std::make_unique<Cluster>(1);
    ASSERT_EQ(cluster_->problem(), "");
  }
  // Without the flag that shows the admin's token.
  Finished shoal(std::vector<std::string> arguments, const std::string& input = {}) {
    arguments.insert(arguments.begin(), binary("shoal"));
    return run(arguments, 60, input);
  }
  std::string http() const { return cluster_->state().addresses.http; }
  std::string https() const { return "https" + http().substr(http().find(':')); }
  std::string roots() const { return cluster_->state().data_dir + "/coordinator/tls/roots.pem"; }
  std::string new_token(const std::string& name, const std::string& scope) {
    const Finished made =
        cluster_->shoal({"token", "create", "--name", name, "--scope", scope, "--ttl", "1h"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return made.out.substr(0, made.out.find('\n'));
  }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(People, UpKeepsItsTokenWhereTheCommandsFindIt) {
  const Finished found = shoal({"agent", "ls", "--addr", http()});
  EXPECT_EQ(found.exit_code, 0) << found.err;
  const Variable elsewhere("XDG_CONFIG_HOME", cluster_->folder().path("nobody"));
  const Finished nobody = shoal({"agent", "ls", "--addr", http()});
  EXPECT_EQ(nobody.exit_code, cli::kExitAuth);
  EXPECT_NE(nobody.err.find("the request has no token"), std::string::npos) << nobody.err;
  EXPECT_NE(nobody.err.find("shoal login"), std::string::npos) << nobody.err;
}

TEST_F(People, EachActsByItsScope) {
  const std::string file = cluster_->write_job({});
  {
    const Variable ada("SHOAL_TOKEN", new_token("ada", "submitter"));
    const Finished made = shoal({"job", "submit", file, "--addr", http(), "--json"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_EQ(shoal({"token", "ls", "--addr", http()}).exit_code, cli::kExitAuth);
  }
  EXPECT_EQ(cli::text_at(cluster_->job("tiny"), "owner"), "ada");
  const Variable bob("SHOAL_TOKEN", new_token("bob", "submitter"));
  const Finished refused = shoal({"job", "cancel", "tiny", "--addr", http()});
  EXPECT_EQ(refused.exit_code, cli::kExitAuth);
  EXPECT_NE(refused.err.find("is of ada"), std::string::npos) << refused.err;
  EXPECT_EQ(cluster_->shoal({"job", "cancel", "tiny"}).exit_code, 0);
}

TEST_F(People, LoggingInOverTlsKeepsAContext) {
  const std::string token = new_token("ada", "operator");
  const Finished stranger = shoal({"login", https(), "--name", "team"}, token + "\n");
  EXPECT_EQ(stranger.exit_code, cli::kExitAuth);
  EXPECT_NE(stranger.err.find("is not trusted"), std::string::npos) << stranger.err;
  const Finished in = shoal({"login", https(), "--name", "team", "--ca", roots()}, token + "\n");
  ASSERT_EQ(in.exit_code, 0) << in.err;
  EXPECT_NE(in.err.find("as ada (operator)"), std::string::npos) << in.err;
  const Finished list = shoal({"agent", "ls", "--json"});
  EXPECT_EQ(list.exit_code, 0) << "the context is chosen: " << list.err;
  EXPECT_NE(shoal({"link"}).out.find(https() + "/login#ticket="), std::string::npos);
  EXPECT_NE(shoal({"context", "ls"}).out.find("team"), std::string::npos);
  EXPECT_EQ(shoal({"context", "use", "nothing"}).exit_code, cli::kExitNotFound);
  EXPECT_EQ(shoal({"context", "rm", "team"}).exit_code, 0);
  EXPECT_EQ(shoal({"login", https(), "--ca", roots()}, "nonsense\n").exit_code, cli::kExitAuth);
}

TEST_F(People, AKeptTokenThatOthersCanReadIsRefused) {
  namespace fs = std::filesystem;
  fs::permissions(cluster_->folder().path("config/shoal/config.toml"), fs::perms::others_read,
                  fs::perm_options::add);
  const Finished refused = shoal({"agent", "ls", "--addr", http()});
  EXPECT_EQ(refused.exit_code, cli::kExitAuth) << refused.err;
  EXPECT_NE(refused.err.find("chmod 600"), std::string::npos) << refused.err;
}

TEST_F(People, TheAuditTrailSurvivesARestart) {
  const std::string token = new_token("ada", "viewer");
  ASSERT_EQ(cluster_->shoal({"agent", "cordon", "agent-1"}).exit_code, 0);
  cluster_->kill_coordinator();
  ASSERT_TRUE(cluster_->restart_coordinator());
  const Finished trail = cluster_->shoal({"audit", "--json"});
  ASSERT_EQ(trail.exit_code, 0) << trail.err;
  const Json items = Json::parse(trail.out).at("items");
  EXPECT_EQ(cli::text_at(items.at(0), "action"), "cordon_agent");
  EXPECT_EQ(cli::text_at(items.at(0), "principal"), "admin");
  EXPECT_EQ(cli::text_at(items.at(0), "after"), "idle, cordoned");
  EXPECT_EQ(cli::text_at(items.at(1), "action"), "create_token");
  EXPECT_EQ(cli::text_at(items.at(1), "after"), "ada, viewer");
  const Variable ada("SHOAL_TOKEN", token);
  EXPECT_EQ(shoal({"agent", "ls", "--addr", http()}).exit_code, 0) << "tokens survive, too";
  EXPECT_EQ(shoal({"audit", "--addr", http()}).exit_code, cli::kExitAuth);
}

TEST_F(People, MetricsHaveAScopeOfTheirOwn) {
  cli::HttpRequest request;
  request.url = http() + "/metrics";
  request.token = new_token("prometheus", "metrics");
  EXPECT_EQ(cli::send(request)->status, 200);
  request.url = http() + "/api/v1/jobs";
  EXPECT_EQ(cli::send(request)->status, 403);
}

}  // namespace
}  // namespace shoal::integration
