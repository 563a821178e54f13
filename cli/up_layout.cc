// Flags of the daemons as `shoal up` uses them: everything on loopback, free ports for the peers.
#include "cli/up_layout.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "base/link_options.h"
#include "cli/format.h"
#include "cli/user_folder.h"
#include "threads/file_content.h"

namespace shoal::cli {
namespace {

constexpr int kAgentsMax = 256;
constexpr int kThreadsMax = 1024;  // shoal-agent's
constexpr double kSpeedMin = 0.01;
constexpr int kOrphanLimitS = 30;  // nobody starts an agent again here but by hand

Json process_json(const ProcessRef& process) {
  return {
      {"name", process.name}, {"pid", process.pid}, {"start", process.start}, {"log", process.log}};
}

ProcessRef process_of(const Json& json) {
  return {text_at(json, "name", ""), static_cast<pid_t>(number_at(json, "pid")),
          static_cast<std::int64_t>(number_at(json, "start")), text_at(json, "log", "")};
}

Status check_speeds(const UpOptions& options) {
  if (options.speeds.empty()) return {};
  if (options.speeds.size() != static_cast<std::size_t>(options.agents)) {
    return Error{Code::kInvalidArgument,
                 "must be one per agent, " + std::to_string(options.agents) + ", got " +
                     std::to_string(options.speeds.size()),
                 "--speeds", "for example --agents 4 --speeds 1,1,0.5,0.25"};
  }
  for (const double speed : options.speeds) {
    if (speed >= kSpeedMin && speed <= 1) continue;
    return Error{Code::kInvalidArgument, "must be from 0.01 to 1, got " + std::to_string(speed),
                 "--speeds", "1 is the full speed of this host"};
  }
  return {};
}

Status check_link(const std::string& text) {
  if (text.empty()) return {};
  const auto link = parse_link(text);
  if (link.ok()) return {};
  Error error = link.error();
  error.code = Code::kInvalidArgument;
  error.field = "--emulate-link, " + error.field;
  return error;
}

Status check_addresses(const UpOptions& options) {
  const auto http = parse_loopback(options.http, "--http");
  if (!http) return http.error();
  const auto grpc = parse_loopback(options.grpc, "--grpc");
  if (!grpc) return grpc.error();
  if (http->port == 0 || http->text() != grpc->text()) return {};
  return Error{Code::kInvalidArgument, "must not be that of --http, got " + grpc->text(), "--grpc",
               "give another port; 0 takes a free one"};
}

void add_data_roots(const UpOptions& options, std::vector<std::string>& command) {
  for (const std::string& root : options.data_roots) {
    command.insert(command.end(), {"--data-root", root});
  }
}

}  // namespace

Result<std::string> default_up_folder() {
  const auto folder = user_folder("XDG_DATA_HOME", ".local/share", "--data-dir");
  return folder.ok() ? Result<std::string>(*folder + "/up") : folder;
}

Result<HostPort> parse_loopback(const std::string& text, const std::string& flag) {
  const bool port_only = text.rfind(':') == std::string::npos || text.starts_with(':');
  const auto read =
      read_host_port(port_only ? "127.0.0.1:" + text.substr(text.starts_with(':') ? 1 : 0) : text);
  if (!read) {
    return Error{Code::kInvalidArgument, "not an address: '" + text + "'", flag,
                 "give it as host:port, for example 127.0.0.1:7070; port 0 takes a free one"};
  }
  if (!is_loopback_host(read->host)) {
    return Error{Code::kInvalidArgument, "'" + read->host + "' is not this host's loopback", flag,
                 "`shoal up` is for trying out on one host; for others start shoal-coordinator"};
  }
  return *read;
}

Status validate(const UpOptions& options) {
  if (options.agents < 1 || options.agents > kAgentsMax) {
    return Error{
        Code::kInvalidArgument,
        "must be 1 to " + std::to_string(kAgentsMax) + ", got " + std::to_string(options.agents),
        "--agents", "four are a good start"};
  }
  if (options.reducers < 0 || options.reducers > kAgentsMax) {
    return Error{
        Code::kInvalidArgument,
        "must be 0 to " + std::to_string(kAgentsMax) + ", got " + std::to_string(options.reducers),
        "--reducers", "they serve jobs with sync.topology = \"param_server\""};
  }
  if (options.threads < 0 || options.threads > kThreadsMax) {
    return Error{
        Code::kInvalidArgument,
        "must be 1 to " + std::to_string(kThreadsMax) + ", got " + std::to_string(options.threads),
        "--threads", "leave it out to share the cores"};
  }
  if (auto good = check_speeds(options); !good) return good;
  if (auto good = check_link(options.emulated_link); !good) return good;
  return check_addresses(options);
}

int threads_per_agent(const UpOptions& options, int cores) {
  return options.threads > 0 ? options.threads : std::max(1, cores / options.agents);
}

Launch coordinator_launch(const UpLayout& layout, const UpOptions& options, const HostPort& http,
                          const HostPort& grpc, const std::string& binaries) {
  std::vector<std::string> command = {binaries + "/shoal-coordinator",
                                      "--data-dir",
                                      layout.coordinator(),
                                      "--http",
                                      http.text(),
                                      "--grpc",
                                      grpc.text(),
                                      "--address-file",
                                      layout.address_file()};
  add_data_roots(options, command);
  return {"coordinator", std::move(command), layout.log("coordinator"), !options.detach};
}

Launch agent_launch(const UpLayout& layout, const UpOptions& options, int number, int threads,
                    const UpAddresses& addresses, const std::string& binaries) {
  const bool reducer = number > options.agents;
  const std::string name = reducer ? "reducer-" + std::to_string(number - options.agents)
                                   : "agent-" + std::to_string(number);
  std::vector<std::string> command = {binaries + "/shoal-agent",
                                      "--coordinator",
                                      addresses.grpc,
                                      "--join-token",
                                      addresses.token_file,
                                      "--enrol",
                                      addresses.http.substr(addresses.http.find("://") + 3),
                                      "--data-dir",
                                      layout.agent(number),
                                      "--name",
                                      name,
                                      "--host",
                                      "127.0.0.1",
                                      "--peer-ports",
                                      "0",
                                      "--orphan-limit-s",
                                      std::to_string(kOrphanLimitS)};
  const std::vector<std::string> role =
      reducer
          ? std::vector<std::string>{"--role", "reducer", "--trainer", binaries + "/shoal-reducer"}
          : std::vector<std::string>{"--devices", "cpu:1",
                                     "--threads", std::to_string(threads),
                                     "--trainer", binaries + "/shoal-trainer"};
  command.insert(command.end(), role.begin(), role.end());
  if (!reducer && !options.speeds.empty()) {
    const double speed = options.speeds.at(static_cast<std::size_t>(number - 1));
    command.insert(command.end(), {"--speed", std::to_string(speed)});
  }
  if (!reducer) add_data_roots(options, command);
  if (!reducer && !options.trainer_root.empty()) {
    command.insert(command.end(),
                   {"--trainer-root", std::filesystem::absolute(options.trainer_root).string()});
  }
  for (const std::string& owner : options.code_from) {
    if (!reducer) command.insert(command.end(), {"--allow-code-from", owner});
  }
  if (!reducer && !options.python.empty()) {
    command.insert(command.end(), {"--python", options.python});
  }
  if (!options.emulated_link.empty()) {
    command.insert(command.end(), {"--emulate-link", options.emulated_link});
  }
  return {name, std::move(command), layout.log(name), !options.detach};
}

// "up" on the usual port, else "up-41234".
SavedContext context_of_up(const UpAddresses& addresses) {
  const std::string port = addresses.http.substr(addresses.http.rfind(':') + 1);
  const bool usual = addresses.http == kDefaultAddress;
  return {.name = usual ? "up" : "up-" + port,
          .addr = addresses.http,
          .token = {},
          .token_file = addresses.admin_token_file,
          .ca = {}};
}

bool is_of_up(const SavedContext& context) {
  return context.name == "up" || context.name.starts_with("up-");
}

std::vector<ProcessRef> UpState::all() const {
  std::vector<ProcessRef> processes = agents;
  processes.push_back(coordinator);
  return processes;
}

Json to_json(const UpState& state) {
  Json json;
  json["http"] = state.addresses.http;
  json["grpc"] = state.addresses.grpc;
  json["token_file"] = state.addresses.token_file;
  json["admin_token_file"] = state.addresses.admin_token_file;
  json["data_dir"] = state.data_dir;
  json["pids"]["coordinator"] = state.coordinator.pid;
  json["pids"]["agents"] = Json::array();
  json["processes"] = Json::array();
  if (state.coordinator.pid > 0) json["processes"].push_back(process_json(state.coordinator));
  for (const ProcessRef& agent : state.agents) {
    json["pids"]["agents"].push_back(agent.pid);
    json["processes"].push_back(process_json(agent));
  }
  return json;
}

Result<UpState> read_up_state(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  const Json* processes = json.is_discarded() ? nullptr : at_path(json, "processes");
  if (!processes || !processes->is_array()) {
    return Error{Code::kDataLoss, "the file up.json is not readable", "",
                 "end the processes by hand and remove it"};
  }
  UpState state;
  state.addresses = {text_at(json, "http", ""), text_at(json, "grpc", ""),
                     text_at(json, "token_file", ""), text_at(json, "admin_token_file", "")};
  state.data_dir = text_at(json, "data_dir", "");
  for (const Json& process : *processes) {
    if (text_at(process, "name") == "coordinator") {
      state.coordinator = process_of(process);
    } else {
      state.agents.push_back(process_of(process));
    }
  }
  return state;
}

Status save_up_state(const UpLayout& layout, const UpState& state) {
  const std::string fresh = layout.state_file() + ".new";
  std::ofstream file(fresh, std::ios::trunc);
  file << to_json(state).dump(2) << "\n";
  file.close();
  if (!file || ::rename(fresh.c_str(), layout.state_file().c_str()) != 0) {
    return Error{Code::kInternal, layout.state_file() + " cannot be written", "--data-dir",
                 "is the folder writable and the disk not full?"};
  }
  return {};
}

Result<std::optional<UpState>> load_up_state(const UpLayout& layout) {
  const auto text = file_content(layout.state_file());
  if (!text) return std::optional<UpState>();
  auto state = read_up_state(*text);
  if (!state) return state.error();
  return std::optional<UpState>(std::move(*state));
}

StoppedCluster count_running(const UpState& state,
                             const std::function<bool(const ProcessRef&)>& is_running) {
  StoppedCluster stopped;
  for (const ProcessRef& process : state.all()) {
    const bool runs = is_running(process);
    if (!runs) {
      const bool coordinator = process.name == state.coordinator.name;
      stopped.ended_before.push_back(coordinator ? "the coordinator" : process.name);
    } else if (process.name == state.coordinator.name) {
      stopped.coordinator = true;
    } else {
      ++stopped.agents;
    }
  }
  return stopped;
}

std::string stopped_text(const StoppedCluster& stopped) {
  std::string text = "Stopped " + plural(stopped.agents, "agent");
  if (stopped.coordinator) text += " and the coordinator";
  const std::size_t ended = stopped.ended_before.size();
  for (std::size_t i = 0; i < ended; ++i) {
    text += (i == 0 ? "; " : i + 1 == ended ? " and " : ", ") + stopped.ended_before[i];
  }
  return text + (ended > 0 ? " had ended before." : ".");
}

}  // namespace shoal::cli
