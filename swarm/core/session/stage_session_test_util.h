// A session that tests drive by hand, and the pipeline that it is in: three stages with replicas 1
// and 2, 11 and 12, 21 and 22.
#pragma once

#include "swarm/core/session/stage_session.h"

namespace shoal::swarm {

inline constexpr Duration kService = milliseconds(10);

inline ReplicaId id(std::uint64_t n) { return ReplicaId(n); }

// Three stages: routers 1 and 2, then 11 and 12, then 21 and 22.
inline PipelineView full_view(std::int64_t number = 1) {
  PipelineView view{.job = JobId(1), .number = number};
  for (const std::uint64_t n : {1, 2, 11, 12, 21, 22}) {
    view.members.push_back({id(n), static_cast<StageIndex>(n / 10), "", 0});
  }
  return view;
}

inline PipelineView without(PipelineView view, std::uint64_t gone, std::int64_t number) {
  std::erase_if(view.members, [&](const auto& m) { return m.replica == id(gone); });
  view.number = number;
  return view;
}

inline Microbatch mb(std::int32_t index, std::int64_t step = 0, std::uint64_t router = 1) {
  return {1, step, id(router), index, PassKind::kTrain};
}

struct Fixture {
  explicit Fixture(std::uint64_t self, std::int32_t stages = 3,
                   PipelineSchedule schedule = PipelineSchedule::kFlush)
      : session(SessionOptions{.self = id(self),
                               .stage = static_cast<StageIndex>(self / 10),
                               .stages = stages,
                               .microbatch = 2,
                               .context = 8,
                               .schedule = schedule},
                0, 0, Instant{0}) {}

  void open(std::int64_t from, std::int64_t to, std::int64_t per_step) {
    OpenRound round{.key = {JobId(1), 0, 1}, .from_step = Steps(from), .to_step = Steps(to)};
    round.leases = {{0, per_step * (to - from) * 2}};
    session.open(now, round, out);
  }
  std::optional<TaskId> forward(std::uint64_t from, const Microbatch& m, std::int32_t attempt = 1) {
    return session.forward(now, id(from), {m, attempt}, out);
  }
  std::optional<TaskId> answer(const SendForward& sent) {
    return session.backward(
        now, sent.to, {sent.header.microbatch, sent.header.attempt, kService, 3, Tokens(16)}, out);
  }
  std::optional<Compute> compute() {
    const auto next = session.next();
    if (next) session.computed(now, kService, 3, Tokens(16), out);
    return next;
  }
  void gossip(std::uint64_t from, std::int64_t step, std::vector<RouterProgress> routers) {
    session.gossip(now, id(from), {1, step, std::move(routers)}, out);
  }
  template <typename Action>
  std::vector<Action> take() {  // removes them
    std::vector<Action> found;
    std::erase_if(out, [&](const SessionAction& action) {
      const auto* one = std::get_if<Action>(&action);
      if (one != nullptr) found.push_back(*one);
      return one != nullptr;
    });
    return found;
  }
  void wait(Duration how_long) {
    now = now + how_long;
    session.tick(now, out);
  }

  Instant now{0};
  SessionActions out;
  StageSession session;
};

// All neighbors are connected and a round of 4 steps with 3 microbatches per router is open.
struct Ready : Fixture {
  explicit Ready(std::uint64_t self, PipelineSchedule schedule = PipelineSchedule::kFlush)
      : Fixture(self, 3, schedule) {
    session.view(now, full_view(), out);
    for (const std::uint64_t n : {1, 2, 11, 12, 21, 22}) {
      const auto gap = static_cast<std::int64_t>(n / 10) - static_cast<std::int64_t>(self / 10);
      if (gap == 1 || gap == -1) session.connected(now, id(n), out);
    }
    open(0, 4, 3);
  }
  // Ends the steps 0 to 3 and begins those up to 8.
  void go_to_round_2() {
    session.stop(now, out);
    session.committed(now, 1, 4, out);
    session.open(now, {.key = {JobId(1), 0, 2}, .from_step = Steps(4), .to_step = Steps(8)}, out);
  }
};

}  // namespace shoal::swarm
