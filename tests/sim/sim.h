// What all parts of one simulated world share: time, options, the trace, the counts, the checkers
// and the planted bug, if there is one.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "tests/negative/bugs.h"
#include "tests/sim/checker.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/faults.h"
#include "tests/sim/options.h"
#include "tests/sim/trace.h"
#include "tests/sim/transitions.h"

namespace shoal::sim {

struct Sim {
  Sim(const SimOptions& o, Bug planted, bool print_trace)
      : options(o), queue(kStart), trace(print_trace), bug(planted) {
    checkers = make_all_checkers({options, queue.now(), broken, tainted, census});
  }
  Sim(const Sim&) = delete;

  const SimOptions options;
  EventQueue queue;
  Trace trace;
  FaultCounts faults;
  TransitionCounts transitions;
  std::optional<BrokenInvariant> broken;
  std::set<ReplicaId> tainted;  // a bit of their memory has changed
  const Census* census = nullptr;
  Checkers checkers;
  Observer* ambush = nullptr;  // sees what the checkers see
  const Bug bug;
  std::int64_t bug_fired = 0;  // how often the planted bug did something
  bool faults_on = true;

  Instant now() const { return queue.now(); }
  void log(const std::string& line) { trace.add(queue.now(), line); }
  void strike(Fault fault, const std::string& what) {
    faults.count(fault);
    log(std::string("FAULT ") + to_string(fault) + " " + what);
  }
  bool misbehave(Bug which) {
    if (bug != which) return false;
    ++bug_fired;
    return true;
  }

  void taint(ReplicaId replica) { tainted.insert(replica); }

  void violate(const char* checker, const std::string& what) {
    if (!broken) broken = BrokenInvariant{checker, what};
  }

  template <typename Method, typename... Args>
  void observe(Method method, const Args&... args) {
    for (auto& checker : checkers) ((*checker).*method)(args...);
    if (ambush != nullptr) (ambush->*method)(args...);
  }
  Prng prng_for(std::uint64_t part) const { return Prng(mix_seed(options.seed, part)); }
};

}  // namespace shoal::sim
