#include "coordinator/core/replicas/line_probes.h"

#include <algorithm>

#include "coordinator/core/state/measured_lines.h"

namespace shoal::coordinator {
namespace {

bool contains(const std::vector<AgentId>& agents, AgentId agent) {
  return std::ranges::find(agents, agent) != agents.end();
}

bool is_fresh(const HostLine& line, Instant now) {
  return line.round_trip.ns > 0 && now - line.measured_at <= kLinkFresh;
}

void begin(Transaction& tx, AgentId agent) {
  tx.volatile_state().lines.running.put(agent, tx.now());
  tx.measure_line(agent);
}

// The job may have stopped waiting, or have ended.
bool is_wanted(const State& state, AgentId agent) {
  return std::ranges::any_of(state.timers, [&](const auto& entry) {
    return entry.second.measures_due && contains(entry.second.lines_asked, agent);
  });
}

void begin_urgent(Transaction& tx) {
  LineQueue& queue = tx.volatile_state().lines;
  while (!queue.urgent.empty() && queue.running.size() < kLineProbesMax) {
    const AgentId next = queue.urgent.front();
    queue.urgent.erase(queue.urgent.begin());
    if (is_wanted(tx.state(), next) && lacks_line(tx, next)) begin(tx, next);
  }
}

void set_idle_due(LineQueue& queue, Instant now) {
  queue.idle_due.reset();
  if (!queue.running.empty()) return;
  if (!queue.idle.empty()) queue.idle_due = std::max(now, queue.idle_after);
  for (const auto& [agent, at] : queue.again) {
    const Instant due = std::max({now, queue.idle_after, at});
    if (!queue.idle_due || due < *queue.idle_due) queue.idle_due = due;
  }
}

void requeue_due(LineQueue& queue, Instant now) {
  std::vector<AgentId> due;
  for (const auto& [agent, at] : queue.again) {
    if (now >= at) due.push_back(agent);
  }
  for (const AgentId agent : due) {
    queue.again.erase(agent);
    if (!contains(queue.idle, agent)) queue.idle.push_back(agent);
  }
}

void end(Transaction& tx, AgentId agent) {
  LineQueue& queue = tx.volatile_state().lines;
  queue.running.erase(agent);
  begin_urgent(tx);
  set_idle_due(queue, tx.now());
}

// Peers may have measured the line before this process began.
bool is_idle_and_unknown(const Transaction& tx, AgentId id,
                         const FlatMap<AgentId, AgentLine>& lines) {
  const AgentLine* line = lines.find(id);
  const bool is_known = line != nullptr && is_measured_by_peers(*line);
  return tx.state().agents.at(id).state == AgentState::kIdle && !is_known && lacks_line(tx, id);
}

}  // namespace

bool lacks_line(const Transaction& tx, AgentId id) {
  const Presence* presence = tx.state().presence.find(id);
  return presence != nullptr && presence->connected && presence->protocol >= kMeasuresLinesSince &&
         !is_fresh(tx.state().agents.at(id).line, tx.now());
}

void want_line(Transaction& tx, AgentId agent) {
  LineQueue& queue = tx.volatile_state().lines;
  if (is_line_awaited(tx.state(), agent)) return;
  queue.urgent.push_back(agent);
  begin_urgent(tx);
  set_idle_due(queue, tx.now());
}

bool is_line_awaited(const State& state, AgentId agent) {
  return state.lines.running.contains(agent) || contains(state.lines.urgent, agent);
}

void want_line_later(Transaction& tx, AgentId agent) {
  LineQueue& queue = tx.volatile_state().lines;
  if (tx.options().measure_limit.ns == 0 || !lacks_line(tx, agent)) return;
  if (contains(queue.idle, agent)) return;
  if (queue.idle.empty()) queue.idle_after = std::max(queue.idle_after, tx.now() + kLineProbeAfter);
  queue.idle.push_back(agent);
  set_idle_due(queue, tx.now());
}

void measure_idle_lines(Transaction& tx) {
  LineQueue& queue = tx.volatile_state().lines;
  if (!queue.idle_due || tx.now() < *queue.idle_due) return;
  requeue_due(queue, tx.now());
  const FlatMap<AgentId, AgentLine> lines = lines_of(tx.state(), tx.now());
  while (!queue.idle.empty() && queue.running.empty()) {
    const AgentId next = queue.idle.front();
    queue.idle.erase(queue.idle.begin());
    if (!is_idle_and_unknown(tx, next, lines)) continue;
    queue.idle_after = tx.now() + kLineProbeEvery;
    begin(tx, next);
  }
  set_idle_due(queue, tx.now());
}

std::optional<AgentId> keep_line(Transaction& tx, const HostLineMeasured& measured) {
  const AgentId* known = tx.state().by_connection.find(measured.connection);
  if (known == nullptr || !tx.state().lines.running.contains(*known)) return std::nullopt;
  const AgentId id = *known;
  HostLine& line = tx.agent(id).line;
  line = measured.line;
  line.measured_at = tx.now();
  const bool answered = line.round_trip.ns > 0;
  tx.count_transition("line", "asked", answered ? "measured" : "silent");
  if (!answered) tx.volatile_state().lines.again.put(id, tx.now() + kLineProbeAgain);
  end(tx, id);
  return id;
}

void drop_line(Transaction& tx, AgentId agent) {
  LineQueue& queue = tx.volatile_state().lines;
  std::erase(queue.urgent, agent);
  std::erase(queue.idle, agent);
  queue.again.erase(agent);
  if (queue.running.contains(agent)) tx.count_transition("line", "asked", "lost");
  end(tx, agent);
}

}  // namespace shoal::coordinator
