// A cluster of real processes in a temporary folder, started by `shoal up` on free ports and
// stopped when the test ends. When the test failed, the ends of all logs are printed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/api.h"
#include "cli/up_layout.h"
#include "tests/integration/process.h"

namespace shoal::integration {

using cli::Json;

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string path(const std::string& name = {}) const;
  std::string write(const std::string& name, const std::string& text) const;  // its path

 private:
  std::string root_;
};

// A model of a few thousand parameters on a text of its own; trains in seconds.
struct TinyJob {
  std::string name = "tiny";
  int steps = 30;
  int every = 10;
  std::string algorithm = "diloco";
  int min_replicas = 2;
  int stages = 1;
  int layers = 2;
  std::string schedule = "flush";
  std::string more;  // further TOML at the end
};

class Cluster {
 public:
  // Agents of 0 starts nothing. Check `problem()` first. `options`: further ones of `shoal up`.
  // `prepare` is called with the data folder before anything is there.
  explicit Cluster(int agents, const std::vector<std::string>& options = {},
                   const std::function<void(const std::string&)>& prepare = {});
  ~Cluster();

  const std::string& problem() const { return problem_; }  // empty: it runs
  const cli::UpState& state() const { return state_; }
  cli::Api api() const;  // as an admin
  const TempFolder& folder() const { return folder_; }

  Finished shoal(std::vector<std::string> arguments, double limit_s = 60) const;  // with --addr
  std::string write_job(const TinyJob& job) const;  // path of the file
  Json job(const std::string& name) const;          // {} when it fails
  std::vector<Json> items(const std::string& path) const;
  std::string phase_of(const std::string& job) const;
  double rounds_committed(const std::string& job) const;

  void kill_coordinator();     // SIGKILL
  bool restart_coordinator();  // on the same ports; true when it is ready

  // For the agent at `index`: end_agent() sends the signal and waits for its end; start_agent()
  // starts it on its folder, with the limit of `shoal up` unless another one is given, and `more`.
  bool end_agent(std::size_t index, int signal);
  bool start_agent(std::size_t index, const std::string& orphan_limit_s = {},
                   const std::vector<std::string>& more = {});
  std::string agent_folder(std::size_t index) const;

 private:
  TempFolder folder_;
  cli::UpState state_;
  std::string problem_;
};

// Tests that share one cluster, which their suite starts; without a trainer they are skipped.
class SharedClusterTest : public testing::Test {
 protected:
  static void start(int agents, const std::vector<std::string>& options = {}) {
    if (has_binary("shoal-trainer")) cluster_ = std::make_unique<Cluster>(agents, options);
  }
  static void TearDownTestSuite() { cluster_.reset(); }
  void SetUp() override {
    if (!cluster_) GTEST_SKIP() << "shoal-trainer was not built";
    ASSERT_EQ(cluster_->problem(), "");
  }
  static inline std::unique_ptr<Cluster> cluster_;
};

// Where an agent that a test starts by itself joins, and as whom.
struct LoneAgent {
  std::string grpc, enrol;  // host:port of the coordinator
  std::string token;        // a join token or the file of one
  std::string data, name;
};
// shoal-agent with one CPU device, on loopback.
std::vector<std::string> command_of(const LoneAgent& agent);

}  // namespace shoal::integration
