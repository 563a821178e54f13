#include "agent/flags.h"

#include <CLI/CLI.hpp>

#include "base/arguments.h"
#include "base/number_text.h"

namespace shoal::agent {
namespace {

constexpr double kLimitMin = 0.1, kLimitMax = 86'400;  // seconds
constexpr int kOrphanLimitMax = 86'400;
constexpr double kGibMin = 0.01;
constexpr double kRelayMbitMax = 1e6;
constexpr int kRelayPairsMin = 8, kRelayPairsMax = 65'536;

void declare_limits(CLI::App& app, Flags& flags) {
  app.add_flag("--private-urls", flags.private_urls,
               "datasets may be read from addresses of a private network, and over plain HTTP")
      ->envname("SHOAL_PRIVATE_URLS");
  app.add_option("--outbound-proxy", flags.outbound_proxy,
                 "http(s)://host:port of the proxy towards object stores and datasets (none)")
      ->envname("SHOAL_OUTBOUND_PROXY");
  app.add_option("--data-cache-gib", flags.data_cache_gib,
                 "most that datasets may take beneath --data-dir; 0: nothing is kept")
      ->envname("SHOAL_DATA_CACHE_GIB")
      ->check([](const std::string& text) { return number_problem(text, 0, 1e6); })
      ->capture_default_str();
  app.add_option(
         "--load-limit-s", flags.load_limit_s,
         "a trainer whose load makes no progress for so long, plus the time to read its size, "
         "is killed")
      ->check(CLI::Range(kLimitMin, kLimitMax))
      ->capture_default_str();
  app.add_option(
         "--transfer-limit-s", flags.transfer_limit_s,
         "an upload or fetch of checkpoint files is given up when nothing moves for so long")
      ->check(CLI::Range(kLimitMin, kLimitMax))
      ->capture_default_str();
  app.add_option("--release-limit-s", flags.release_limit_s,
                 "a trainer that takes longer to release a replica counts as hung and is killed")
      ->check(CLI::Range(kLimitMin, kLimitMax))
      ->capture_default_str();
}

void declare_relay(CLI::App& app, Flags& flags) {
  app.add_option(
         "--relay", flags.relay,
         "host:port on which this host relays between replicas that cannot dial each other, "
         "for example 0.0.0.0:7200 (default: it does not relay, with --role relay 0.0.0.0:7200)")
      ->envname("SHOAL_AGENT_RELAY");
  app.add_option(
         "--relay-advertise", flags.relay_advertise,
         "host or host:port by which replicas reach the relay (default: --host and the port "
         "of --relay)")
      ->envname("SHOAL_AGENT_RELAY_ADVERTISE");
  app.add_option("--relay-mbit", flags.relay_mbit,
                 "Mbit/s that the relay carries at most, all pairs and both ways together; 0: no "
                 "limit")
      ->envname("SHOAL_AGENT_RELAY_MBIT")
      ->check(CLI::Range(0.0, kRelayMbitMax))
      ->capture_default_str();
  app.add_option("--relay-pairs", flags.relay_pairs,
                 "connections that the relay carries at a time; an agent gets an eighth of them at "
                 "most")
      ->envname("SHOAL_AGENT_RELAY_PAIRS")
      ->check(CLI::Range(kRelayPairsMin, kRelayPairsMax))
      ->capture_default_str();
}

void declare_programs(CLI::App& app, Flags& flags) {
  app.add_option(
         "--trainer-root", flags.trainer_root,
         "folder with the programs of jobs with trainer.kind = \"python\", which run as this "
         "user (default: none are run)")
      ->envname("SHOAL_TRAINER_ROOT");
  app.add_option(
         "--allow-code-from", flags.code_from,
         "owner of jobs whose uploaded code this host runs, confined to a folder of its own, any "
         "number of times; '*': everybody who may submit jobs (default: none)")
      ->envname("SHOAL_ALLOW_CODE_FROM")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--program-user", flags.program_user,
                 "user that runs uploaded code, if this agent runs as root (default: the "
                 "agent's own)")
      ->envname("SHOAL_PROGRAM_USER");
  const auto gib = [](const std::string& text) { return number_problem(text, kGibMin, 1e6); };
  app.add_option(kMemoryFlag, flags.program_memory_gib,
                 "memory that each program of a job may take; one that takes more is killed "
                 "(default: its share of nine tenths of this host's)")
      ->envname("SHOAL_PROGRAM_MEMORY_GIB")
      ->check(gib);
  app.add_option(kProcessesFlag, flags.program_processes,
                 "processes and threads that each program may have")
      ->envname("SHOAL_PROGRAM_PROCESSES")
      ->check(CLI::Range(std::int64_t{16}, std::int64_t{1} << 22))
      ->capture_default_str();
  app.add_option(kDiskFlag, flags.program_disk_gib,
                 "disk that the files of each program may take, checkpoints on their way included "
                 "(default: its share of nine tenths of the file system of --data-dir)")
      ->envname("SHOAL_PROGRAM_DISK_GIB")
      ->check(gib);
  app.add_option(kCgroupFlag, flags.program_cgroup,
                 "cgroup (version 2) of this agent's own in which each program gets one, which "
                 "bounds its memory and processes (default: the agent looks every two seconds)")
      ->envname("SHOAL_PROGRAM_CGROUP");
  app.add_option("--python", flags.python, "interpreter that runs both, found in PATH")
      ->envname("SHOAL_PYTHON")
      ->capture_default_str();
}

void declare_reports(CLI::App& app, Flags& flags) {
  app.add_option("--metrics", flags.metrics,
                 "host:port where Prometheus scrapes this agent, for example 127.0.0.1:9100; plain "
                 "HTTP without a login (default: nowhere)")
      ->envname("SHOAL_AGENT_METRICS");
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
}

}  // namespace

void declare(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", std::string("shoal-agent ") + SHOAL_VERSION);
  app.add_option("--coordinator", flags.coordinator, "host:port of the coordinator's gRPC service")
      ->envname("SHOAL_GRPC")
      ->capture_default_str();
  app.add_option("--join-token", flags.join_token,
                 "token that this host joins the cluster with, or a file with it; needed once")
      ->envname("SHOAL_JOIN_TOKEN");
  app.add_option(
         "--enrol", flags.enrol,
         "host:port where this host joins and renews its certificate (default: port 7070 of "
         "the coordinator's host)")
      ->envname("SHOAL_ENROL");
  app.add_option("--data-dir", flags.data_dir, "for identity, logs and checkpoints")
      ->capture_default_str();
  app.add_option("--name", flags.name, "name shown to people; unique in the cluster")
      ->capture_default_str();
  app.add_option("--label", flags.labels, "k=v, any number of times")->allow_extra_args(false);
  app.add_option(
         "--data-root", flags.data_roots,
         "[NAME=]FOLDER beneath which jobs may read data, any number of times (default: none)")
      ->envname("SHOAL_DATA_ROOT")
      ->allow_extra_args(false);
  declare_programs(app, flags);
  app.add_option("--role", flags.role,
                 "trainer; reducer: no device is used, this host averages for others (jobs with "
                 "sync.topology = \"param_server\"); or relay: this host does nothing but --relay")
      ->envname("SHOAL_AGENT_ROLE")
      ->check(CLI::IsMember({"trainer", "reducer", "relay"}))
      ->capture_default_str();
  app.add_option("--devices", flags.devices,
                 "auto, gpu:0,2 for these GPUs, or cpu:N for N trainers")
      ->capture_default_str();
  app.add_option(kCpuMemoryFlag, flags.memory_gib,
                 "memory that the CPU devices take together (default: four fifths of what this "
                 "host, and each cgroup around this agent, has left)")
      ->envname("SHOAL_AGENT_MEMORY_GIB")
      ->check([](const std::string& text) { return number_problem(text, kGibMin, 1e6); });
  app.add_flag("--replica-group", flags.replica_group,
               "the devices train one replica together: they share each batch and act as one");
  app.add_option("--threads", flags.threads, "of each CPU trainer (default: cores / devices)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--speed", flags.speed,
                 "for trials: trainers pretend to be this share of their device, 0.01 to 1")
      ->envname("SHOAL_AGENT_SPEED")
      ->capture_default_str();
  app.add_option("--emulate-link", flags.emulated_link,
                 "for trials: each trainer pretends to have this line, "
                 "up=200mbit,down=200mbit,rtt=80ms,jitter=5ms")
      ->envname("SHOAL_AGENT_LINK");
  app.add_option("--host", flags.host,
                 "address that peers dial (default: the address used towards the coordinator)");
  app.add_option("--peer-ports", flags.peer_ports, "range of ports, one per trainer; 0: any")
      ->capture_default_str();
  declare_relay(app, flags);
  declare_limits(app, flags);
  app.add_option("--trainer", flags.trainer,
                 "path of the process to start (default: shoal-trainer beside this program, with "
                 "--role reducer shoal-reducer)");
  app.add_option("--orphan-limit-s", flags.orphan_limit_s,
                 "how long trainers continue without an agent before they end; 0: they end with it")
      ->check(CLI::Range(0, kOrphanLimitMax))
      ->capture_default_str();
  declare_reports(app, flags);
}

}  // namespace shoal::agent
