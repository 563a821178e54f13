// shoal-agent: reads its flags, probes the host and runs until the coordinator or the operator ends
// it. Exit codes: 0 stopped, 1 refused or failed, 2 bad flags, 4 the
// coordinator refuses this host.
#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "agent/flags.h"
#include "agent/host/children.h"
#include "agent/host/confinement.h"
#include "agent/host/device_probe.h"
#include "agent/host/driver_queries.h"
#include "agent/host/network.h"
#include "agent/host/program_bounds.h"
#include "agent/host/program_user.h"
#include "agent/host/runtime.h"
#include "base/arguments.h"
#include "base/link_options.h"
#include "base/number_text.h"
#include "base/thread_environment.h"
#include "base/wire_text.h"
#include "identity/private_file.h"
#include "threads/descriptor_limit.h"
#include "threads/service_manager.h"

namespace shoal::agent {
namespace {

constexpr int kExitFlags = 2;
constexpr double kSpeedMin = 0.01;
constexpr std::size_t kOwnerMax = 256;  // bytes of a name
constexpr double kGib = 1 << 30;
constexpr const char* kRelayDefault = "0.0.0.0:7200";  // with --role relay
constexpr int kRelayShare = 8;
constexpr std::uint16_t kHttpPort = 7070;  // of a coordinator, unless it was told another one

std::string default_data_dir() {  // empty: there is no home folder
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return std::string(home) + "/.local/share/shoal/agent";
}

std::string default_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "agent";
}

std::string beside_this_binary(const std::string& program) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? program : (self.parent_path() / program).string();
}

// The token itself, or a file with it that nobody else may read.
// A host that has joined does not need it any more.
Result<std::string> read_token(const std::string& given, const std::string& data_dir) {
  if (given.empty() || given.starts_with("shoaljoin1.")) return given;
  auto token = identity::read_token_file(given);
  if (token.ok()) return token;
  std::error_code unseen;
  const bool gone = token.error().code == Code::kNotFound;
  if (gone && std::filesystem::exists(data_dir + "/machine.pem", unseen)) return std::string();
  Error error = token.error();
  error.message = given + ": " + error.message;
  error.field = "--join-token";
  return error;
}

// Where a host joins when it is not said: the default port of the coordinator's HTTP.
Result<std::string> enrol_address(const Flags& flags) {
  if (!flags.enrol.empty()) {
    const auto given = address_to_dial(flags.enrol, "--enrol");
    return given.ok() ? Result<std::string>(flags.enrol) : given.error();
  }
  const auto coordinator = address_to_dial(flags.coordinator, "--coordinator");
  if (!coordinator.ok()) return coordinator.error();
  return HostPort{coordinator->host, kHttpPort}.text();
}

Result<std::vector<std::pair<std::string, std::string>>> read_labels(
    const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> labels;
  for (const std::string& text : texts) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{Code::kValidation, "must be k=v, got '" + text + "'", "--label", ""};
    }
    const std::string key = text.substr(0, equals);
    const auto same = [&](const auto& label) { return label.first == key; };
    if (std::any_of(labels.begin(), labels.end(), same)) {
      return Error{Code::kValidation, "'" + key + "' is given twice", "--label", ""};
    }
    labels.emplace_back(key, text.substr(equals + 1));
  }
  return labels;
}

Status check_link(const std::string& text) {
  if (text.empty() || parse_link(text).ok()) return {};
  Error error = parse_link(text).error();
  error.field = "--emulate-link, " + error.field;
  return error;
}

Bytes bytes_of(const std::optional<double>& gib) {
  return Bytes(static_cast<std::int64_t>(gib.value_or(0) * kGib));
}

// Refuses options of training agents for an agent with the role reducer.
Result<ProbedDevices> devices_of(const Flags& flags) {
  if (flags.role == "trainer") {
    return probe_devices(flags.devices, visible_gpus(), {.library = default_nvml_library()},
                         bytes_of(flags.memory_gib));
  }
  const std::pair<const char*, bool> given[] = {
      {"--devices", flags.devices != "auto"},
      {"--replica-group", flags.replica_group},
      {"--speed", flags.speed != 1},
      {"--threads", flags.threads != 0},
      {kCpuMemoryFlag, flags.memory_gib.has_value() && flags.role == "relay"}};
  for (const auto& [flag, is_given] : given) {
    if (!is_given) continue;
    return Error{Code::kValidation,
                 "cannot be given with --role " + flags.role + ", which uses no device", flag,
                 "leave it out"};
  }
  return ProbedDevices{flags.role == "reducer" ? reducer_devices(bytes_of(flags.memory_gib))
                                               : std::vector<Device>()};
}

Status check_values(const Flags& flags) {
  if (flags.name.empty()) {
    return Error{Code::kValidation, "must not be empty", "--name", "leave it out for the host's"};
  }
  if (flags.data_dir.empty()) {
    return Error{Code::kValidation, "there is no home folder to put the data in", "--data-dir",
                 "name a folder"};
  }
  if (!(flags.speed >= kSpeedMin && flags.speed <= 1)) {
    return Error{Code::kValidation, "must be from 0.01 to 1", "--speed", "1 is the full speed"};
  }
  const Status host = flags.host.empty() ? Status() : check_peer_host(flags.host);
  if (!host.ok()) return host;
  std::error_code missing;
  if (!flags.trainer_root.empty() && !std::filesystem::is_directory(flags.trainer_root, missing)) {
    return Error{Code::kValidation, flags.trainer_root + " is not a folder", "--trainer-root",
                 "name the folder with the programs of jobs"};
  }
  if (!flags.metrics.empty() && !read_host_port(flags.metrics)) {
    return Error{Code::kValidation, "must be host:port, got '" + flags.metrics + "'", "--metrics",
                 "for example 127.0.0.1:9100"};
  }
  const Status proxy = objects::check_proxy(flags.outbound_proxy, "--outbound-proxy");
  return proxy.ok() ? check_link(flags.emulated_link) : proxy;
}

Status check_replica_group(const Flags& flags, std::size_t devices) {
  if (!flags.replica_group || devices > 1) return {};
  return Error{Code::kValidation, "needs at least two devices, and this host has one",
               "--replica-group", "leave it out, or name more, for example --devices cpu:2"};
}

Status check_code_from(const Flags& flags) {
  if (flags.code_from.empty()) return {};
  if (flags.code_from.size() > kCodeOwnersMax) {
    return Error{Code::kValidation, "can be given 64 times at most", "--allow-code-from",
                 "name '*' to allow everybody who may submit jobs"};
  }
  for (const std::string& owner : flags.code_from) {
    if (!owner.empty() && is_plain_text(owner, kOwnerMax)) continue;
    return Error{Code::kValidation, "must be the name of an owner, got '" + owner + "'",
                 "--allow-code-from", "`shoal token ls` lists the owners of tokens"};
  }
  return can_confine();
}

// An agent that is root gives uploaded code a user of its own, or says that it does not.
Result<std::optional<ProgramUser>> program_user(const Flags& flags) {
  if (flags.program_user.empty()) {
    if (!flags.code_from.empty() && ::geteuid() == 0) {
      spdlog::warn(
          "uploaded code runs as root: it has no capabilities, but local services that trust root "
          "are in its reach (give --program-user, or run the agent as a user of its own)");
    }
    return std::optional<ProgramUser>();
  }
  if (flags.code_from.empty()) {
    return Error{Code::kValidation, "needs --allow-code-from", "--program-user",
                 "name the owners whose code is run, or leave it out"};
  }
  auto user = find_program_user(flags.program_user);
  if (!user.ok()) return user.error();
  return std::optional(std::move(user).value());
}

ProgramBounds program_bounds(const Flags& flags, std::size_t devices) {
  ProgramBounds bounds = usual_bounds(flags.data_dir, devices);
  const auto bytes = [](double gib) { return Bytes(static_cast<std::int64_t>(gib * kGib)); };
  if (flags.program_memory_gib) bounds.memory = bytes(*flags.program_memory_gib);
  if (flags.program_disk_gib) bounds.disk = bytes(*flags.program_disk_gib);
  bounds.processes = flags.program_processes;
  return bounds;
}

AllowedPrograms allowed_programs(const Flags& flags) {
  AllowedPrograms allowed{!flags.trainer_root.empty(), flags.code_from, ProgramLimits::kNone};
  if (allowed.beneath_root || !allowed.code_from.empty()) {
    allowed.limits =
        flags.program_cgroup.empty() ? ProgramLimits::kWatched : ProgramLimits::kCgroup;
  }
  return allowed;
}

std::string program_of(const Flags& flags) {
  if (!flags.trainer.empty()) return flags.trainer;
  return beside_this_binary(flags.role == "reducer" ? "shoal-reducer" : "shoal-trainer");
}

int threads_per_trainer(int wanted, std::size_t devices) {
  if (wanted > 0) return wanted;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) /
                         std::max(1, static_cast<int>(devices)));
}

// The address of the relay: --relay-advertise, else the address at which peers dial this host.
Result<std::string> relay_address(const Flags& flags, const HostPort& bind,
                                  const std::string& host) {
  if (flags.relay_advertise.empty()) return HostPort{host, bind.port}.text();
  if (const auto whole = read_host_port(flags.relay_advertise)) return whole->text();
  Status alone = check_peer_host(flags.relay_advertise);
  if (alone.ok()) return HostPort{flags.relay_advertise, bind.port}.text();
  return Error{Code::kValidation, "must be host or host:port, got '" + flags.relay_advertise + "'",
               "--relay-advertise", "for example relay.example.org:7200"};
}

Result<std::optional<RelaySettings>> relay_settings(const Flags& flags, const std::string& host) {
  const std::string relay =
      flags.relay.empty() && flags.role == "relay" ? kRelayDefault : flags.relay;
  if (relay.empty()) {
    if (flags.relay_advertise.empty()) return std::optional<RelaySettings>();
    return Error{Code::kValidation, "needs --relay", "--relay-advertise",
                 "add --relay 0.0.0.0:7200, or leave it out"};
  }
  const auto bind = read_host_port(relay);
  if (!bind) {
    return Error{Code::kValidation, "must be host:port, got '" + flags.relay + "'", "--relay",
                 "for example 0.0.0.0:7200"};
  }
  auto address = relay_address(flags, *bind, host);
  if (!address.ok()) return address.error();
  RelaySettings settings;
  settings.options.bind = relay;
  settings.options.mbit_max = flags.relay_mbit;
  settings.options.limits.joined_max = flags.relay_pairs;
  settings.options.limits.joined_per_agent_max = std::max(1, flags.relay_pairs / kRelayShare);
  settings.advertise = std::move(address).value();
  return std::optional(settings);
}

// The leader's device stands for all.
void form_replica_group(HostOptions& options) {
  options.replica_group = static_cast<int>(options.core.devices.size());
  options.core.devices.resize(1);
  options.core.devices[0].grouped = options.replica_group;
}

Result<HostOptions> host_options(const Flags& flags) {
  HostOptions options;
  if (const Status values = check_values(flags); !values.ok()) return values.error();
  if (const Status allowed = check_code_from(flags); !allowed.ok()) return allowed.error();
  options.coordinator.address = flags.coordinator;
  const auto address = address_to_dial(flags.coordinator, "--coordinator");
  if (!address.ok()) return address.error();
  auto token = read_token(flags.join_token, flags.data_dir);
  if (!token.ok()) return token.error();
  options.join_token = std::move(token).value();
  auto enrol = enrol_address(flags);
  if (!enrol.ok()) return enrol.error();
  options.enrol = std::move(enrol).value();
  auto devices = devices_of(flags);
  if (!devices.ok()) return devices.error();
  for (const std::string& silent : devices->silent) spdlog::warn("{}, so it is not lent", silent);
  auto labels = read_labels(flags.labels);
  if (!labels.ok()) return labels.error();
  auto roots = data::DataRoots::parse(flags.data_roots, "--data-root");
  if (!roots.ok()) return roots.error();
  auto ports = parse_port_range(flags.peer_ports);
  if (!ports.ok()) return ports.error();
  if (const Status replica_group = check_replica_group(flags, devices->devices.size());
      !replica_group.ok())
    return replica_group.error();
  auto host = flags.host.empty() ? local_address_towards(flags.coordinator)
                                 : Result<std::string>(flags.host);
  if (!host.ok()) return host.error();

  auto relay = relay_settings(flags, *host);
  if (!relay.ok()) return relay.error();
  options.relay = std::move(relay).value();

  options.core.name = flags.name;
  options.core.version = SHOAL_VERSION;
  options.core.host = std::move(host).value();
  options.core.labels = std::move(labels).value();
  options.core.devices = std::move(devices->devices);
  options.gpus = std::move(devices->gpus);
  options.driver.library = default_nvml_library();
  options.memory = bytes_of(flags.memory_gib);
  options.core.only_relays = flags.role == "relay";
  options.data_dir = flags.data_dir;
  options.data_roots = std::move(roots).value();
  options.data_reach = {flags.private_urls, flags.private_urls, false, flags.outbound_proxy};
  options.data_cache = Bytes(static_cast<std::int64_t>(flags.data_cache_gib * kGib));
  options.trainer = program_of(flags);
  options.trainer_root = flags.trainer_root;
  options.python = flags.python;
  auto user = program_user(flags);
  if (!user.ok()) return user.error();
  options.program_user = std::move(user).value();
  options.program_cgroup = flags.program_cgroup;
  options.core.programs = allowed_programs(flags);
  options.threads = threads_per_trainer(flags.threads, options.core.devices.size());
  options.threads_by_devices = flags.threads <= 0;
  if (flags.replica_group) form_replica_group(options);
  options.program_bounds = program_bounds(flags, options.core.devices.size());
  options.core.load_limit = seconds_f(flags.load_limit_s);
  options.core.transfer_limit = seconds_f(flags.transfer_limit_s);
  options.core.release_limit = seconds_f(flags.release_limit_s);
  options.speed = flags.speed;
  options.emulated_link = flags.emulated_link;
  options.orphan_limit = seconds(flags.orphan_limit_s);
  options.peer_ports = *ports;
  options.metrics = flags.metrics;
  return options;
}

int complain(const Error& error, int code) {
  std::cerr << "shoal-agent: " << to_string(error) << "\n";
  return code;
}

// Blocked in every thread; one thread waits for them. SIGHUP, the end of a terminal, is one of them
// unless it is ignored (nohup).
sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
    sigaddset(&signals, SIGHUP);
  }
  sigaddset(&signals, SIGUSR2);  // end, and leave the trainers to the next start
  sigaddset(&signals, SIGUSR1);  // our own: the daemon has ended
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

int run(const Flags& flags) {
  raise_descriptor_limit();  // a relay needs two for each pair; trainers inherit it
  const sigset_t signals = block_stop_signals();
  Children::of_this_process().adopt_orphans();
  ServiceManager manager = ServiceManager::from_environment();
  auto options = host_options(flags);
  if (!options.ok()) return complain(options.error(), kExitFlags);
  options->on_turn = [&manager] { manager.alive(); };
  auto runtime = Runtime::open(std::move(options).value());
  if (!runtime.ok()) {
    const bool flag = runtime.error().field == "--join-token";
    return complain(runtime.error(), flag ? kExitFlags : 1);
  }
  std::thread stopper([&] {
    for (int caught = 0; sigwait(&signals, &caught) == 0 && caught != SIGUSR1;) {
      caught == SIGUSR2 ? (*runtime)->hand_over() : (*runtime)->stop();
    }
  });
  manager.ready("agent " + flags.name + " of " + flags.coordinator);
  const ExitProcess end = (*runtime)->run();
  manager.stopping();
  pthread_kill(stopper.native_handle(), SIGUSR1);
  stopper.join();
  if (end.code == 0) {
    spdlog::info("{}", end.message);
  } else {
    std::cerr << "shoal-agent: " << end.message << "\n";
  }
  return end.code;
}

// Trainers inherit it, and need not start twice to have it (trainer/plain/threads.h).
void complete_thread_environment() {
  for (const EnvironmentEntry& entry : kThreadEnvironment) setenv(entry.name, entry.value, 0);
}

}  // namespace
}  // namespace shoal::agent

int main(int argc, char** argv) {
  using namespace shoal::agent;
  if (argc == 3 && std::string_view(argv[1]) == kQueryDevicesFlag)  // driver_queries.h
    return serve_driver_queries(argv[2]);
  const shoal::Status given = shoal::check_arguments(argc, argv, environ);
  if (!given.ok()) return complain(given.error(), kExitFlags);
  Flags flags;
  flags.data_dir = default_data_dir();
  flags.name = default_name();
  CLI::App app{
      "Joins this host to a Shoal cluster: reports its devices, starts one trainer per device and "
      "keeps them at work.\n"
      "SIGTERM and SIGINT end it with its trainers, at the end of their inner step; the second "
      "time at once.\n"
      "SIGUSR2 ends it alone: the trainers continue, and the next start on the same --data-dir "
      "finds them again,\nas after a crash. That is how an agent is upgraded in place.",
      "shoal-agent"};
  declare(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kExitFlags;
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("agent"));
  spdlog::set_level(spdlog::level::from_str(flags.log_level));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  complete_thread_environment();
  return run(flags);
}
