// Starting order: lock, ports, coordinator, agents. Each step has the same deadline; a child that
// ends early ends the wait at once.
#include "cli/up_command.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number_text.h"
#include "base/wire_text.h"
#include "cli/contexts.h"
#include "cli/format.h"
#include "cli/terminal.h"
#include "identity/private_file.h"
#include "threads/file_content.h"
#include "threads/file_lock.h"
#include "threads/landlock.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kReadyLimitS = 60;
constexpr double kStopGraceS = 10;
constexpr const char* kOwner = "admin";  // of the token in the file
constexpr double kFreeBytesMin = 16e6;   // below it nothing can start, and logs cannot say why

// Tries the address before anything is started, so that the flag can be named.
Status check_port_is_free(const HostPort& address, const std::string& flag) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  if (getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found) != 0) {
    return Error{Code::kInvalidArgument, "unknown host '" + address.host + "'", flag,
                 "give an address of this host, such as 127.0.0.1"};
  }
  const int fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, found->ai_protocol);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int failure = errno;
  if (fd >= 0) close(fd);
  freeaddrinfo(found);
  if (bound) return {};
  const std::string why = failure == EADDRINUSE ? "port in use" : std::strerror(failure);
  return Error{Code::kConflict, address.text() + ": " + why, flag,
               "end what uses it, or give another port; 0 takes a free one"};
}

Status check_folder_is_free(const UpLayout& layout) {
  auto state = load_up_state(layout);
  if (!state) return state.error();
  if (!*state) return {};
  for (const ProcessRef& process : (*state)->all()) {
    if (!is_alive(process)) continue;
    return Error{
        Code::kConflict,
        "a cluster runs in " + layout.root + " already: " + process.name + " is process " +
            std::to_string(process.pid) + ", " + (*state)->addresses.http,
        "--data-dir",
        "use it, stop it with `shoal down --data-dir " + layout.root + "`, or give another folder"};
  }
  return {};
}

Status make_folders(const UpLayout& layout, int agents) {
  std::error_code failure;
  const auto make = [&](const std::string& path) {
    if (!failure) fs::create_directories(path, failure);
  };
  make(layout.root);
  make(layout.root + "/logs");
  make(layout.coordinator());
  for (int i = 1; i <= agents; ++i) make(layout.agent(i));
  if (failure) {
    return Error{Code::kInternal, layout.root + " cannot be made: " + failure.message(),
                 "--data-dir", "give a folder that you may write to"};
  }
  fs::permissions(layout.root, fs::perms::owner_all, failure);
  const auto free = static_cast<double>(fs::space(layout.root, failure).available);
  if (!failure && free < kFreeBytesMin) {
    return Error{Code::kResourceExhausted,
                 "the disk of " + layout.root + " is full: " + size_text(free) + " left",
                 "--data-dir", "make room there, or give a folder on another disk"};
  }
  return {};
}

Status check_binaries(const std::string& folder, bool reducers) {
  for (const char* name : {"shoal-coordinator", "shoal-agent", "shoal-trainer", "shoal-reducer"}) {
    const std::string path = folder + "/" + name;
    if (!reducers && std::string_view(name) == "shoal-reducer") continue;
    if (access(path.c_str(), X_OK) == 0) continue;
    return Error{Code::kNotFound,
                 path + " is missing: `shoal up` starts the programs in its own folder", "",
                 "build everything with `./dev build`"};
  }
  return {};
}

Api admin_api(const UpState& state) {
  Credentials credentials;
  auto token = identity::read_token_file(state.addresses.admin_token_file);
  if (token.ok()) credentials.token = std::move(token).value();
  if (!token.ok()) credentials.problem = token.error();
  return Api(state.addresses.http, {}, std::move(credentials));
}

// The commands find the cluster's token by its address. Contexts of clusters that are gone are
// removed. Without a home folder there is nowhere to keep one.
void keep_context(const UpState& state) {
  const auto file = contexts_file();
  const Status kept =
      !file.ok() ? Status(file.error()) : change_contexts(*file, [&](Contexts& contexts) {
        std::erase_if(contexts.all, [](const SavedContext& one) {
          return is_of_up(one) && access(one.token_file.c_str(), F_OK) != 0;
        });
        contexts.put_first(context_of_up(state.addresses));
      });
  if (kept.ok()) return;
  say("The commands' token could not be kept: " + to_string(kept.error()));
  say("Run: export SHOAL_TOKEN_FILE=" + state.addresses.admin_token_file);
}

void forget_context(const UpState& state) {
  const auto file = contexts_file();
  if (!file.ok() || access(file->c_str(), F_OK) != 0) return;
  (void)change_contexts(*file, [&](Contexts& contexts) {  // one that stays harms nobody
    contexts.remove(context_of_up(state.addresses).name);
  });
}

// A link that logs a browser in once; empty: the coordinator gave none.
std::string login_link(const UpState& state) {
  const auto ticket = admin_api(state).post("/tickets", "", "application/json");
  if (!ticket.ok()) return {};
  return state.addresses.http + "/login#ticket=" + text_at(*ticket, "ticket");
}

class Cluster {
 public:
  Cluster(UpLayout layout, UpOptions options)
      : layout_(std::move(layout)), options_(std::move(options)), binaries_(own_folder()) {
    state_.data_dir = layout_.root;
    // Jobs of whoever runs this command; agents refuse to start where nothing would confine them.
    if (landlock_version() > 0) options_.code_from = {kOwner};
  }

  Status start() {
    deadline_ = now_s() + kReadyLimitS;
    Status done = start_coordinator();
    if (done.ok()) done = start_agents();
    if (done.ok()) done = wait_for_agents();
    if (!done.ok()) shut_down();
    return done;
  }

  // Agents first: they drain while the coordinator still listens.
  void shut_down() {
    stop(state_.agents, kStopGraceS);
    stop({state_.coordinator}, kStopGraceS);
    forget_context(state_);
    std::error_code ignored;
    fs::remove(layout_.state_file(), ignored);
  }

  // Until Ctrl-C (true) or the end of the coordinator (false).
  bool watch() {
    std::vector<ProcessRef> agents = state_.agents;
    while (pause_for(0.5)) {
      if (!is_alive(state_.coordinator)) return false;
      const auto is_dead = [](const ProcessRef& agent) {
        if (is_alive(agent)) return false;
        say(agent.name + " has ended; its log: " + agent.log);
        return true;
      };
      agents.erase(std::remove_if(agents.begin(), agents.end(), is_dead), agents.end());
    }
    return true;
  }

  const UpState& state() const { return state_; }

 private:
  Status start_coordinator() {
    auto http = parse_loopback(options_.http, "--http");
    if (!http) return http.error();
    auto grpc = parse_loopback(options_.grpc, "--grpc");
    if (!grpc) return grpc.error();
    if (auto free = check_port_is_free(*http, "--http"); !free) return free;
    if (auto free = check_port_is_free(*grpc, "--grpc"); !free) return free;
    std::error_code ignored;
    fs::remove(layout_.address_file(), ignored);
    auto started = launch(coordinator_launch(layout_, options_, *http, *grpc, binaries_));
    if (!started) return started.error();
    state_.coordinator = *started;
    if (auto saved = save_up_state(layout_, state_); !saved) return saved;
    while (!read_addresses()) {
      if (auto going = go_on("the coordinator to listen", state_.coordinator); !going) return going;
    }
    const Api api(state_.addresses.http);
    while (!api.answers("/readyz")) {
      if (auto going = go_on("the coordinator to be ready", state_.coordinator); !going)
        return going;
    }
    return save_up_state(layout_, state_);
  }

  bool read_addresses() {
    const std::string text = file_content(layout_.address_file()).value_or("");
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) return false;
    state_.addresses = {text_at(json, "http", ""), text_at(json, "grpc", ""),
                        text_at(json, "token_file", ""), text_at(json, "admin_token_file", "")};
    std::string& http = state_.addresses.http;
    if (http.find("://") == std::string::npos) http = "http://" + http;
    return true;
  }

  Status start_agents() {
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const int threads = threads_per_agent(options_, cores);
    for (int number = 1; number <= options_.agents + options_.reducers; ++number) {
      auto agent =
          launch(agent_launch(layout_, options_, number, threads, state_.addresses, binaries_));
      if (!agent) return agent.error();
      state_.agents.push_back(*agent);
      if (auto saved = save_up_state(layout_, state_); !saved) return saved;
    }
    return {};
  }

  // The agents that can work, or work already for a job of an earlier run.
  std::vector<std::string> agents_at_hand() const {
    std::vector<std::string> names;
    const auto agents = admin_api(state_).list("/agents");
    if (!agents.ok()) return names;
    for (const Json& agent : agents->at("items")) {
      const std::string state = text_at(agent, "state");
      if (state == "idle" || state == "syncing" || state == "active") {
        names.push_back(text_at(agent, "name"));
      }
    }
    return names;
  }

  Status wait_for_agents() {
    for (;;) {
      const std::vector<std::string> there = agents_at_hand();
      const auto missing =
          std::find_if(state_.agents.begin(), state_.agents.end(), [&](const ProcessRef& agent) {
            return std::find(there.begin(), there.end(), agent.name) == there.end();
          });
      if (missing == state_.agents.end()) return {};
      if (auto going = go_on(missing->name + " to be idle", *missing); !going) return going;
    }
  }

  // Waits a moment; an error when further waiting is pointless.
  Status go_on(const std::string& what, const ProcessRef& process) const {
    const std::string log = "; the end of " + process.log + ":" + last_lines(process.log, 12);
    if (!is_alive(process)) {
      return Error{Code::kInternal, process.name + " ended while waiting for " + what + log, "",
                   ""};
    }
    if (now_s() > deadline_) {
      return Error{
          Code::kDeadlineExceeded,
          "waited " + std::to_string(static_cast<int>(kReadyLimitS)) + " s for " + what + log, "",
          ""};
    }
    if (!pause_for(0.1)) return Error{Code::kCancelled, "interrupted", "", ""};
    return {};
  }

  UpLayout layout_;
  UpOptions options_;
  std::string binaries_;
  UpState state_;
  double deadline_ = 0;
};

void show(const UpState& state, bool json, bool detached) {
  if (json) return print(to_json(state).dump(2) + "\n");
  std::string pids = std::to_string(state.coordinator.pid);
  for (const ProcessRef& agent : state.agents) pids += " " + std::to_string(agent.pid);
  const std::string link = login_link(state);
  if (!link.empty()) print("browser     " + link + "\n");
  print("http        " + state.addresses.http + "\ngrpc        " + state.addresses.grpc +
        "\ntoken_file  " + state.addresses.token_file + "\ndata_dir    " + state.data_dir +
        "\npids        " + pids + "\n");
  if (!link.empty())
    say("The browser's link logs in once, within ten minutes; `shoal link` prints another.");
  if (state.addresses.http != kDefaultAddress) {
    say("The port is not the default; run: export SHOAL_ADDR=" + state.addresses.http);
  }
  say(detached ? "Stop it with: shoal down --data-dir " + state.data_dir : "Ctrl-C stops it.");
}

Result<std::string> folder_of(const std::string& data_dir) {
  const auto chosen = data_dir.empty() ? default_up_folder() : Result<std::string>(data_dir);
  if (!chosen.ok()) return chosen.error();
  std::string path = fs::absolute(*chosen).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (is_utf8(path)) return path;
  return Error{Code::kInvalidArgument, "'" + shown_text(path, false) + "' is not UTF-8",
               "--data-dir", "name a folder whose path is"};
}

}  // namespace

Result<int> run_up(const UpOptions& options, bool json) {
  if (auto good = validate(options); !good) return good.error();
  if (auto there = check_binaries(own_folder(), options.reducers > 0); !there) return there.error();
  const auto folder = folder_of(options.data_dir);
  if (!folder.ok()) return folder.error();
  const UpLayout layout{*folder};
  if (auto made = make_folders(layout, options.agents + options.reducers); !made)
    return made.error();
  // Keeps out a second `up` that starts at the same time; the state file names a running cluster.
  const FileLock lock(layout.lock_file(), O_RDWR | O_CREAT);
  if (!lock.held()) {
    return Error{Code::kConflict, "another `shoal up` works in " + layout.root, "--data-dir",
                 "wait for it, or give another folder"};
  }
  if (auto free = check_folder_is_free(layout); !free) return free.error();

  catch_interrupts();
  Cluster cluster(layout, options);
  if (auto started = cluster.start(); !started) return started.error();
  keep_context(cluster.state());
  show(cluster.state(), json, options.detach);
  if (options.detach) return kExitOk;
  const bool asked_to_stop = cluster.watch();
  say(asked_to_stop ? "Stopping." : "The coordinator has ended; stopping the agents.");
  const std::string log = cluster.state().coordinator.log;
  cluster.shut_down();
  if (asked_to_stop) return kExitOk;
  return Error{Code::kInternal,
               "the coordinator ended; the end of " + log + ":" + last_lines(log, 12), "", ""};
}

Result<int> run_down(const std::string& data_dir, bool json) {
  const auto folder = folder_of(data_dir);
  if (!folder.ok()) return folder.error();
  const UpLayout layout{*folder};
  auto state = load_up_state(layout);
  if (!state) return state.error();
  if (!*state) {
    return Error{Code::kNotFound, "no cluster runs in " + layout.root, "--data-dir",
                 "give the folder that `shoal up` printed"};
  }
  const StoppedCluster stopped = count_running(**state, is_alive);
  stop((*state)->agents, kStopGraceS);
  stop({(*state)->coordinator}, kStopGraceS);
  forget_context(**state);
  std::error_code ignored;
  fs::remove(layout.state_file(), ignored);
  if (json) {
    print(Json{{"stopped", stopped.agents + (stopped.coordinator ? 1 : 0)},
               {"ended_before", stopped.ended_before},
               {"data_dir", layout.root}}
              .dump(2) +
          "\n");
  } else {
    say(stopped_text(stopped) + " The data stays in " + layout.root + ".");
  }
  return kExitOk;
}

}  // namespace shoal::cli
