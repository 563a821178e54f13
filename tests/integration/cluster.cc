#include "tests/integration/cluster.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <gtest/gtest.h>
#include <signal.h>

#include "identity/private_file.h"
#include "threads/landlock.h"

namespace shoal::integration {
namespace {

namespace fs = std::filesystem;

// Words in a seeded order: enough structure for a loss that falls, made in no time.
std::string sample_text() {
  static constexpr const char* kEnumerators[] = {"shoal ", "swims ", "along ", "the ",  "coast ",
                                                 "where ", "small ", "fish ",  "find ", "food ",
                                                 "and\n",  "shade ", "in ",    "deep ", "water.\n"};
  std::string text;
  std::uint64_t state = 1;
  while (text.size() < 60'000) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += kEnumerators[(state >> 33) % std::size(kEnumerators)];
  }
  return text;
}

}  // namespace

std::vector<std::string> command_of(const LoneAgent& agent) {
  std::vector<std::string> command = {binary("shoal-agent")};
  const std::pair<const char*, std::string> options[] = {{"--coordinator", agent.grpc},
                                                         {"--enrol", agent.enrol},
                                                         {"--join-token", agent.token},
                                                         {"--data-dir", agent.data},
                                                         {"--name", agent.name},
                                                         {"--devices", "cpu:1"},
                                                         {"--threads", "1"},
                                                         {"--host", "127.0.0.1"},
                                                         {"--peer-ports", "0"},
                                                         {"--trainer", binary("shoal-trainer")}};
  for (const auto& [option, value] : options) command.insert(command.end(), {option, value});
  return command;
}

TempFolder::TempFolder() {
  std::string pattern = (fs::temp_directory_path() / "shoal-test-XXXXXX").string();
  const char* made = mkdtemp(pattern.data());
  root_ = made ? made : "";
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  if (!root_.empty()) fs::remove_all(root_, ignored);
}

std::string TempFolder::path(const std::string& name) const {
  return name.empty() ? root_ : root_ + "/" + name;
}

std::string TempFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
  return path(name);
}

Cluster::Cluster(int agents, const std::vector<std::string>& options,
                 const std::function<void(const std::string&)>& prepare) {
  // Where `shoal up` keeps its context: not among those of who runs the tests.
  setenv("XDG_CONFIG_HOME", folder_.path("config").c_str(), 1);
  if (agents == 0) return;
  if (prepare) prepare(folder_.path("up"));
  std::vector<std::string> command = {binary("shoal"), "up",
                                      "--agents",      std::to_string(agents),
                                      "--detach",      "--json",
                                      "--http",        "127.0.0.1:0",
                                      "--grpc",        "127.0.0.1:0",
                                      "--threads",     "1",
                                      "--data-dir",    folder_.path("up")};
  command.insert(command.end(), options.begin(), options.end());
  const Finished up = run(command, 90);
  if (up.exit_code != 0) {
    problem_ = "shoal up: exit code " + std::to_string(up.exit_code) + "\n" + up.err;
    return;
  }
  auto state = cli::read_up_state(up.out);
  if (!state.ok()) {
    problem_ = "shoal up printed no state: " + up.out;
    return;
  }
  state_ = *state;
}

Cluster::~Cluster() {
  if (testing::Test::HasFailure()) {
    for (const cli::ProcessRef& process : state_.all()) {
      std::cerr << "---- " << process.log << cli::last_lines(process.log, 40) << "\n";
    }
  }
  run({binary("shoal"), "down", "--data-dir", folder_.path("up")}, 60);
  cli::stop(state_.agents, 12);  // those that were started again
  if (state_.coordinator.pid > 0) cli::stop({state_.coordinator}, 5);
}

Finished Cluster::shoal(std::vector<std::string> arguments, double limit_s) const {
  arguments.insert(arguments.begin(), binary("shoal"));
  arguments.insert(arguments.end(), {"--addr", state_.addresses.http, "--token-file",
                                     state_.addresses.admin_token_file});
  return run(arguments, limit_s);
}

cli::Api Cluster::api() const {
  cli::Credentials credentials;
  auto token = identity::read_token_file(state_.addresses.admin_token_file);
  if (token.ok()) credentials.token = *token;
  if (!token.ok()) credentials.problem = token.error();
  return cli::Api(state_.addresses.http, {}, credentials);
}

std::string Cluster::write_job(const TinyJob& job) const {
  // Not once more: a job that trains on it would find it cut to nothing for a moment.
  if (!std::filesystem::exists(folder_.path("text.txt"))) folder_.write("text.txt", sample_text());
  const std::string schedule = job.stages > 1 ? "\nschedule = \"" + job.schedule + "\"" : "";
  return folder_.write(job.name + ".toml",
                       "name = \"" + job.name + "\"\n" +
                           "[model]\nfamily = \"llama\"\nlayers = " + std::to_string(job.layers) +
                           "\nhidden = 32\nheads = 2\ncontext = 32\n"
                           "vocab = 256\n[data]\ntrain = \"text.txt\"\ntokenizer = \"bytes\"\n"
                           "[train]\nbatch = 4\nlr = 0.003\nmin_lr = 0.0003\nwarmup = 5\nsteps = " +
                           std::to_string(job.steps) + "\n[sync]\nalgorithm = \"" + job.algorithm +
                           "\"\nevery = " + std::to_string(job.every) +
                           "\n[swarm]\nstages = " + std::to_string(job.stages) + schedule +
                           "\nmin_replicas = " + std::to_string(job.min_replicas) +
                           "\n[eval]\nevery_rounds = 1\nbatches = 2\n" + job.more);
}

Json Cluster::job(const std::string& name) const {
  auto found = api().get("/jobs/" + name);
  return found.ok() ? *found : Json::object();
}

std::vector<Json> Cluster::items(const std::string& path) const {
  auto list = api().list(path);
  if (!list.ok()) return {};
  return list->at("items").get<std::vector<Json>>();
}

std::string Cluster::phase_of(const std::string& name) const {
  return cli::text_at(job(name), "status/phase", "");
}

double Cluster::rounds_committed(const std::string& name) const {
  return cli::number_at(job(name), "status/progress/rounds_committed", -1);
}

void Cluster::kill_coordinator() {
  kill(state_.coordinator.pid, SIGKILL);
  eventually(5, [&] { return !cli::is_alive(state_.coordinator); });
}

bool Cluster::restart_coordinator() {
  const cli::UpLayout layout{folder_.path("up")};
  cli::UpOptions options;
  options.detach = true;
  const std::string http = state_.addresses.http.substr(state_.addresses.http.find("://") + 3);
  const auto http_at = cli::parse_loopback(http, "--http");
  const auto grpc_at = cli::parse_loopback(state_.addresses.grpc, "--grpc");
  if (!http_at.ok() || !grpc_at.ok()) return false;
  auto started =
      cli::launch(cli::coordinator_launch(layout, options, *http_at, *grpc_at, SHOAL_BIN_DIR));
  if (!started.ok()) return false;
  state_.coordinator = *started;
  return eventually(30, [&] { return api().answers("/readyz"); });
}

bool Cluster::end_agent(std::size_t index, int signal) {
  kill(state_.agents.at(index).pid, signal);
  return eventually(15, [&] { return !cli::is_alive(state_.agents.at(index)); });
}

bool Cluster::start_agent(std::size_t index, const std::string& orphan_limit_s,
                          const std::vector<std::string>& more) {
  const cli::UpLayout layout{folder_.path("up")};
  cli::UpOptions options;
  options.detach = true;
  options.agents = static_cast<int>(state_.agents.size());
  if (landlock_version() > 0) options.code_from = {"admin"};  // as `shoal up` does
  cli::Launch launch = cli::agent_launch(layout, options, static_cast<int>(index) + 1, 1,
                                         state_.addresses, SHOAL_BIN_DIR);
  const auto limit = std::find(launch.command.begin(), launch.command.end(), "--orphan-limit-s");
  if (!orphan_limit_s.empty()) *std::next(limit) = orphan_limit_s;
  launch.command.insert(launch.command.end(), more.begin(), more.end());
  auto started = cli::launch(launch);
  if (!started.ok()) return false;
  state_.agents.at(index) = *started;
  return true;
}

std::string Cluster::agent_folder(std::size_t index) const {
  return cli::UpLayout{folder_.path("up")}.agent(static_cast<int>(index) + 1);
}

}  // namespace shoal::integration
