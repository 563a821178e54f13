// What `shoal up` decides before it starts anything: addresses, the folder's layout, the command
// lines, and the state file that `shoal down` reads. Pure except the two functions that touch the
// state file.
//
//   D/up.json            the running cluster (removed by `down`)
//   D/up.lock            held while a cluster starts
//   D/coordinator/       the coordinator's data folder, its address file and token
//   D/agents/1 …         one data folder per agent
//   D/logs/NAME.log      what each process wrote
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/host_port.h"
#include "base/result.h"
#include "cli/api.h"
#include "cli/contexts.h"
#include "cli/processes.h"

namespace shoal::cli {

struct UpOptions {
  int agents = 1;
  int reducers = 0;  // further agents, with the role reducer
  std::string http = "127.0.0.1:7070";
  std::string grpc = "127.0.0.1:7071";
  std::string data_dir;        // empty: default_up_folder()
  int threads = 0;             // per agent; 0: the host's cores shared out
  std::vector<double> speeds;  // one share per agent, from 0.01 to 1; empty: full speed
  std::vector<std::string> data_roots = {"/"};  // where jobs may read: [NAME=]FOLDER
  std::string trainer_root;                     // with the programs of jobs; empty: none are run
  std::vector<std::string> code_from;           // owners whose uploaded code is run
  std::string python;                           // which runs both; empty: the agent's default
  std::string emulated_link;  // which every agent's trainers pretend to have; empty: none
  bool detach = false;
};

// $XDG_DATA_HOME/shoal/up or ~/.local/share/shoal/up; kNotFound: neither is there.
Result<std::string> default_up_folder();

// "host:port", ":port" or "port"; refuses what is not loopback, naming the flag.
Result<HostPort> parse_loopback(const std::string& text, const std::string& flag);

Status validate(const UpOptions& options);
int threads_per_agent(const UpOptions& options, int cores);

struct UpLayout {
  std::string root;
  std::string state_file() const { return root + "/up.json"; }
  std::string lock_file() const { return root + "/up.lock"; }
  std::string coordinator() const { return root + "/coordinator"; }
  std::string address_file() const { return root + "/coordinator.json"; }
  std::string admin_token() const { return coordinator() + "/admin.token"; }
  std::string agent(int number) const { return root + "/agents/" + std::to_string(number); }
  std::string log(const std::string& name) const { return root + "/logs/" + name + ".log"; }
};

// What the coordinator tells of itself once it listens.
struct UpAddresses {
  std::string http, grpc, token_file;  // http with its scheme; with the token agents join
  std::string admin_token_file;        // with this one people ask; empty: of a version before
};

Launch coordinator_launch(const UpLayout& layout, const UpOptions& options, const HostPort& http,
                          const HostPort& grpc, const std::string& binaries);
Launch agent_launch(const UpLayout& layout, const UpOptions& options, int number, int threads,
                    const UpAddresses& addresses, const std::string& binaries);

// What the commands keep of the cluster, so that they have its admin's token.
SavedContext context_of_up(const UpAddresses& addresses);
// Whether a kept context is of some `shoal up`.
bool is_of_up(const SavedContext& context);

struct UpState {
  UpAddresses addresses;
  std::string data_dir;
  ProcessRef coordinator;
  std::vector<ProcessRef> agents;
  std::vector<ProcessRef> all() const;
};
Json to_json(const UpState& state);
Result<UpState> read_up_state(const std::string& text);

// Replaces the file as a whole. Nothing is returned when there is no file.
Status save_up_state(const UpLayout& layout, const UpState& state);
Result<std::optional<UpState>> load_up_state(const UpLayout& layout);

// The processes that still ran when the cluster was stopped.
struct StoppedCluster {
  std::int64_t agents = 0;
  bool coordinator = false;
  std::vector<std::string> ended_before;  // names
};
StoppedCluster count_running(const UpState& state,
                             const std::function<bool(const ProcessRef&)>& is_running);
// "Stopped 2 agents and the coordinator; agent-3 and agent-4 had ended before."
std::string stopped_text(const StoppedCluster& stopped);

}  // namespace shoal::cli
