// Schedules the measurements of host lines (effect MeasureHostLine), before agents have anything to
// send to each other. The driver times messages over the agent's stream and answers once with
// HostLineMeasured, unless the stream ends; what it measured stays with the agent (HostLine), and
// measured_lines.h says where it counts.
//
// An agent is measured soon after it has connected, if it trains nothing and its line was not
// measured within kLinkFresh: one agent at a time, one in kLineProbeEvery, which keeps the traffic
// of many agents below 1 MiB/s. A job that is cut for the first time waits for the lines of its
// free devices (profiling.h): kLineProbesMax at a time, because they share the coordinator's line.
// An agent that did not answer in time may have been busy: it is measured again after
// kLineProbeAgain, and its answer counts for kSilentLineKnown only.
// Off where Options::measure_limit is 0, and for agents that do not speak kMeasuresLinesSince.
#pragma once

#include <optional>

#include "coordinator/core/state/transaction.h"

namespace shoal::coordinator {

inline constexpr std::size_t kLineProbesMax = 4;
inline constexpr Duration kLineProbeEvery = seconds(3);  // each moves 3 MiB at most
inline constexpr Duration kLineProbeAgain = seconds(300);
inline constexpr Duration kLineProbeAfter = seconds(1);  // the hello of an agent

// It can be measured, and was not within kLinkFresh, or did not answer.
bool lacks_line(const Transaction& tx, AgentId agent);

// A job waits for it: it is in lines_asked of its timers.
void want_line(Transaction& tx, AgentId agent);
bool is_line_awaited(const State& state, AgentId agent);  // it runs, or its turn comes

void want_line_later(Transaction& tx, AgentId agent);  // it said hello

// Begins the next measurement that no job waits for, where its time has come.
void measure_idle_lines(Transaction& tx);

// Keeps the answer. None: the stream is an older one.
std::optional<AgentId> keep_line(Transaction& tx, const HostLineMeasured& measured);

// Its stream has ended, and with it the measurement.
void drop_line(Transaction& tx, AgentId agent);

}  // namespace shoal::coordinator
