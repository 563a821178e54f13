// The flags of shoal-agent: names, defaults, bounds and what --help says of each. main.cc reads
// what they mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/host/program_bounds.h"

namespace CLI {
class App;
}

namespace shoal::agent {

inline constexpr const char* kCpuMemoryFlag = "--memory-gib";

struct Flags {
  std::string coordinator = "127.0.0.1:7071", join_token, enrol, data_dir, name, devices = "auto",
              host;
  std::string role = "trainer", peer_ports = "7100-7199", trainer, log_level = "info";
  std::vector<std::string> labels, data_roots;
  int threads = 0;
  bool replica_group = false;
  double speed = 1;
  int orphan_limit_s = 600;
  std::optional<double> memory_gib;
  double data_cache_gib = 16;
  bool private_urls = false;
  std::string outbound_proxy;
  std::string trainer_root, python = "python3";
  std::vector<std::string> code_from;
  std::string program_user, program_cgroup;
  std::optional<double> program_memory_gib, program_disk_gib;
  std::int64_t program_processes = ProgramBounds().processes;
  std::string emulated_link;
  std::string relay, relay_advertise;
  double relay_mbit = 0;
  int relay_pairs = 512;
  std::string metrics;
  double load_limit_s = 120, transfer_limit_s = 60, release_limit_s = 60;
};

void declare(CLI::App& app, Flags& flags);

}  // namespace shoal::agent
