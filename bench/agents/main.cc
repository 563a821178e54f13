// shoal-many-agents: joins a cluster as many agents at once and stays until its input ends. It says
// in one line of JSON that all are there, and in another what was sent. scripts/bench_agents.py
// looks at what that costs the coordinator.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/agents/many_agents.h"

namespace {

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

void say(const nlohmann::ordered_json& line) { std::cout << line.dump() << std::endl; }

}  // namespace

int main(int argc, char** argv) {
  using namespace shoal::bench;
  ManyAgentsOptions options;
  std::string token_file;
  CLI::App app("Joins a cluster as many agents; ends with its input");
  app.add_option("--folder", options.folder, "For the agents' data folders")->required();
  app.add_option("--coordinator", options.coordinator, "host:port for agents")->required();
  app.add_option("--enrol", options.enrol, "host:port where hosts join")->required();
  app.add_option("--join-token", token_file, "File with the token")->required();
  app.add_option("--agents", options.agents)->check(CLI::Range(1, 10'000))->capture_default_str();
  app.add_option("--gpus", options.gpus, "Of each agent")->check(CLI::Range(0, 16));
  CLI11_PARSE(app, argc, argv);
  std::ifstream(token_file) >> options.join_token;

  JoinTimes times;
  auto agents = ManyAgents::join(options, times);
  if (!agents.ok()) {
    std::fprintf(stderr, "shoal-many-agents: %s\n", agents.error().message.c_str());
    return 1;
  }
  say({{"enrol_ms", quantile(times.enrol_ms, 0.5)},
       {"enrol_p99_ms", quantile(times.enrol_ms, 0.99)},
       {"welcome_ms", quantile(times.welcome_ms, 0.5)},
       {"welcome_p99_ms", quantile(times.welcome_ms, 0.99)}});
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  say({{"heartbeats", (*agents)->sent()}, {"lost", (*agents)->lost()}});
  return 0;
}
