// The devices of a job and their lines as the planner of swarm/core sees them. A line that a probe
// between agents has measured belongs to its agent. Other agents of one host share one: what the
// coordinator has measured of it, else kAssumedLine, or what was shown at least; their devices
// reach each other beside it. The hosts of a site (label `site`) share its uplink, once traffic to
// other sites has been measured.
#pragma once

#include <string>
#include <vector>

#include "base/flat_map.h"
#include "base/ids.h"
#include "coordinator/core/decisions/agent_line.h"
#include "job/job_spec.h"
#include "swarm/core/plan/throughput.h"

namespace shoal::coordinator {

struct Whereabouts {
  std::string host;
  std::string site;  // label `site`; empty: a site of its own
  AgentLine line;    // of the agent
};

// What the planner knows of one device, or of one replica's part of it.
struct PlannedDevice {
  AgentId agent;
  double flops_per_s = 0;
  Bytes memory;
  std::string domain;
  Whereabouts at;
  double group = 1;  // times its speed, with the whole model
};

// By site: what passes between it and others.
using SiteLines = FlatMap<std::string, AgentLine>;

swarm::Cluster cluster_of(const JobSpec& spec, const std::vector<PlannedDevice>& devices,
                          const SiteLines& sites);

// Every replica of the whole model does the same steps of a round (one_stage_tokens_per_s()).
bool has_equal_steps(const JobSpec& spec);

// Where the lines of a plan come from: numbers of agents.
struct LineSources {
  std::int64_t assumed = 0;         // not measured: kAssumedLine, or what was shown at least
  std::int64_t to_coordinator = 0;  // measured by the coordinator alone
  std::int64_t to_peers = 0;        // measured by other agents
  Instant oldest;                   // measurement of the two last; zero: there is none
};
LineSources sources_of_lines(const std::vector<PlannedDevice>& devices);

}  // namespace shoal::coordinator
