// Agents without trainers: each joins the cluster with a key of its own, holds a session with the
// coordinator over mutual TLS, and says at its intervals that it lives. All of it is the product's
// (agent/host); what decides in an agent is left out.
//
// Threads: the methods are for one thread. gRPC's threads deliver what the coordinator says, and a
// thread of its own sends heartbeats.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace shoal::bench {

struct ManyAgentsOptions {
  std::string folder;       // each agent has a data folder below it
  std::string coordinator;  // host:port for agents
  std::string enrol;        // host:port where hosts join (HTTPS)
  std::string join_token;   // its text; good for all of them
  int agents = 1000;
  int gpus = 0;                          // of each; they say something new every 10 s
  Duration welcome_limit = seconds(30);  // of one session
};

struct JoinTimes {
  std::vector<double> enrol_ms;    // key, request and certificate of each agent, one after another
  std::vector<double> welcome_ms;  // from dialing to Welcome: TCP, handshake, Hello
};

class ManyAgents {
 public:
  // Errors are those of joining; deadline_exceeded names the agent that was not welcomed.
  static Result<std::unique_ptr<ManyAgents>> join(const ManyAgentsOptions& options,
                                                  JoinTimes& times);
  virtual ~ManyAgents() = default;

  virtual std::int64_t sent() const = 0;  // heartbeats so far
  virtual int lost() const = 0;           // sessions that ended
};

}  // namespace shoal::bench
