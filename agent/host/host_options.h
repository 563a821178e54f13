// What the host side of an agent is told by its flags.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/agent.h"
#include "agent/host/coordinator_link.h"
#include "agent/host/driver_helper.h"
#include "agent/host/network.h"
#include "agent/host/program_bounds.h"
#include "agent/host/program_user.h"
#include "agent/host/relay_host.h"
#include "data/data_roots.h"
#include "objects/reach.h"

namespace shoal::agent {

struct HostOptions {
  // Its credentials are those of this host's certificate, unless a test gives others.
  CoordinatorEndpoint coordinator;
  std::string join_token;  // its text; empty: this host has joined before
  std::string enrol;       // host:port where it joins and renews
  Options core;            // without uid and data_dir, which come from the data folder
  std::string data_dir;
  std::string trainer;             // program
  std::string trainer_root;        // beneath which jobs' programs are; empty: none are run
  std::string python = "python3";  // which runs them; found in PATH
  std::optional<ProgramUser> program_user = {};  // of uploaded ones; none: the agent's own
  ProgramBounds program_bounds = {};             // of each program
  std::string program_cgroup = {};  // in which each gets a cgroup; empty: the agent watches them
  int threads = 1;                  // of each CPU trainer
  bool threads_by_devices = false;  // not chosen, but those of the host divided by its devices
  // The UUID of each device, empty where none has its number; with a replica group of all its own.
  std::vector<std::string> gpus = {};
  DriverOptions driver = {};   // that is asked for the figures of `gpus`
  Bytes memory = {};           // that CPU devices take together; 0: four fifths of the room
  int replica_group = 1;       // devices that train one replica together; 1: each its own
  double speed = 1;            // trainers pretend to be this share of their device
  data::DataRoots data_roots;  // beneath which jobs may read
  objects::Reach data_reach;   // of URLs of datasets
  Bytes data_cache = mebibytes(16 << 10);  // most that datasets may take of the disk; 0: none
  std::string emulated_link;               // what trainers pretend to have; empty: the real line
  Duration trainer_ping = seconds(2);      // one hangs after two of these and detach_limit
  Duration orphan_limit = seconds(600);    // trainers without an agent end then; 0: at once
  // A stop takes at most drain_limit and this long, a hand-over this long: then what still hangs is
  // named, and the process ends without it. `hangs` does that; none: it logs and calls _exit(1).
  Duration end_limit = seconds(10);
  std::function<void(const std::string&)> hangs = {};
  Duration measure_every = seconds(5);  // memory of trainers; what is known of the devices
  Duration sample_every = seconds(10);  // the devices
  PortRange peer_ports;
  std::optional<RelaySettings> relay;  // none: this agent does not relay
  std::string metrics;                 // host:port where its metrics are scraped; empty: nowhere
  // Called by the thread that decides, whenever it turns, and that is at least every 5 s.
  std::function<void()> on_turn;
};

}  // namespace shoal::agent
