// What a StageSession is made of; only its .cc files and nobody else includes this. Tasks live in
// slots, found by id, by (microbatch, neighbour, attempt) and by two heaps: what the device may
// compute and what waits for a next replica. Entries of a heap are not taken out when their task
// ends: the one who pops looks whether it still holds. stage_session.cc has the coordinator's and
// the device's calls, _tasks.cc what becomes of a task, _peers.cc neighbours and views, _steps.cc
// step words, the barrier and what a router draws, _digest.cc all of it in a number.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "swarm/core/session/retry_budget.h"
#include "swarm/core/session/stage_session.h"

namespace shoal::swarm {

inline constexpr double kForwardWork = 1. / 3;                // of forward and backward together
inline constexpr Duration kRefusalPause = milliseconds(250);  // nothing new for who refused
inline constexpr Duration kWordDelay = milliseconds(50);      // others' progress is collected
inline constexpr std::int32_t kBadTensorsMax = 3;             // of one task, then GiveUp

enum class TaskPhase : std::uint8_t {
  kAsked,      // kLogits before the parameters are at rest; not in the index
  kQueued,     // for the device
  kComputing,  // there
  kWaiting,    // for a next replica
  kParked,     // the same, and the retry budget is spent
  kBelow,      // sent, no answer yet
  kVoid,       // refused as past: the receiver is ahead, a word will tell; not sent again
};

struct Task {
  TaskId id = 0;  // 0: a free slot
  Microbatch microbatch;
  ReplicaId from;  // none: drawn here
  std::int32_t attempt_in = 0;
  TaskPhase phase = TaskPhase::kQueued;
  bool backward = false;  // the answer is here
  bool dropped = false;   // while computed: the result is not wanted
  bool adds = false;      // while computed
  ReplicaId to;
  std::int32_t attempt_out = 0;
  std::int32_t bad_tensors = 0;
  Duration service;
  double loss_sum = 0;
  Tokens tokens;
};

// A place in a heap. Smaller is sooner: oldest step, evaluation before training, oldest microbatch,
// backward first.
struct Due {
  Microbatch microbatch;
  bool backward = false;
  TaskId task = 0;
  bool later_than(const Due& other) const;
};

class DueHeap {
 public:
  bool empty() const { return items_.empty(); }
  const Due& top() const { return items_.front(); }
  void push(const Due& due);
  void pop();
  void add_to(Digester& digester) const;

 private:
  std::vector<Due> items_;
};

// What this replica did for the microbatches of one step.
class StepLedger {
 public:
  struct Entry {
    std::int32_t sends = 0, forwards = 0;
    bool added = false;
  };
  Entry& of(const Microbatch& microbatch) {
    return sources_[{microbatch.router, microbatch.kind}][microbatch.index];
  }
  void clear() { sources_.clear(); }
  void forget_added();
  void add_to(Digester& digester) const;

 private:
  FlatMap<std::pair<ReplicaId, PassKind>, FlatMap<std::int32_t, Entry>> sources_;
};

// What is known here of one inner step that is not over.
struct StepBook {
  StepLedger ledger;
  std::int64_t drawn = 0;  // router: microbatches
  std::int32_t live = 0;   // router: tasks drawn and not answered, evaluation included
  Tokens tokens;           // whose gradients were added
};

struct Peer {
  StageIndex stage = 0;
  double speed = 0;
  bool in_view = false, connected = false, wired = false;
  bool measured = false;   // next stage: `service` is from its reports
  Duration service;        // kept while it is not connected
  std::int32_t tasks = 0;  // it sent, live
  std::uint64_t told = 0;  // version of the word it has
};

struct Evaluation {
  RoundKey key;
  EvalSlice slice;
  std::int64_t microbatches = 0;  // per batch
  std::int64_t passes = 0, drawn = 0, answered = 0;
  double loss_sum = 0;
  Tokens tokens;
  bool done = false;
};

struct Pause {
  Instant until;
  ReplicaId peer;
};

struct StageSession::State {
  State(const SessionOptions& session_options, RoundNumber held_round, std::int64_t step,
        Instant now);

  bool router() const { return options.stage == 0; }
  bool last_stage() const { return options.stage + 1 == options.stages; }
  bool computing() const { return computed_task != 0; }
  bool two_versions() const { return options.schedule == PipelineSchedule::kTwoBufferedWeights; }
  // Steps from `step` to this one are open: their passes are computed, their gradients added.
  std::int64_t open_to() const { return training && two_versions() ? step + 1 : step; }
  StepBook& book(std::int64_t of_step) { return books[static_cast<std::size_t>(of_step & 1)]; }
  const StepBook& book(std::int64_t of_step) const {
    return books[static_cast<std::size_t>(of_step & 1)];
  }
  std::int32_t own_live() const { return books[0].live + books[1].live; }
  bool is_past(const Microbatch& m) const {
    return m.round <= held || (m.round == held + 1 && m.step < step);
  }
  // The end of every call: takes what steps are over, draws, sends, tells.
  void settle(Instant now, SessionActions& out);

  // ---- tasks
  Task* find(TaskId id);
  Task& reserve();
  void enlist(Task& task, const Microbatch& microbatch, ReplicaId sender, std::int32_t attempt);
  void queue(Task& task);
  void wait(Task& task);
  Task* received(ReplicaId from, const ForwardHeader& header);
  Task* below(ReplicaId to, const Microbatch& microbatch, std::int32_t attempt);
  bool may_compute(const Microbatch& microbatch) const;
  std::optional<RefusalReason> objection(const Peer& sender, const Microbatch& microbatch) const;
  void send_waiting(SessionActions& out);
  void send(Task& task, ReplicaId to, SessionActions& out);
  void answered(Task& task, const BackwardHeader& header, SessionActions& out);
  void finish(Task& task, SessionActions& out);  // the answer goes up
  void came_back(const Task& task, SessionActions& out);
  void drop(Task& task, SessionActions& out);
  void refuse_up(const Task& task, RefusalReason reason, SessionActions& out);
  void drop_past(SessionActions& out);
  void detach(Task& task);
  void release(Task& task, SessionActions& out);
  void retry(Instant now, Task& task);
  void refill(Instant now);
  void unpark(Instant now);
  Compute begin(Task& task);
  void digest_tasks(Digester& digester) const;
  void digest_peers(Digester& digester) const;
  void digest_steps(Digester& digester) const;

  // ---- peers
  void take_members(const PipelineView& view);
  void take_neighbours(const PipelineView& view);
  void drop_leavers(const std::vector<ReplicaId>& routers_before, SessionActions& out);
  void wire();
  double window_total() const;
  bool neighbour(const PipelineMember& member) const;
  bool usable(const Peer& peer) const;
  std::int32_t credits(const Peer& peer) const;
  void add_to_wiring(ReplicaId id, Peer& peer);
  void unwire(ReplicaId id, Peer& peer);
  Duration expected_service(const Peer& peer) const;
  void measured(ReplicaId peer, Duration service);
  void forget_stream(ReplicaId id, SessionActions& out);
  bool orphan(const Task& task, const std::vector<ReplicaId>& routers_before) const;
  void pause(Instant now, ReplicaId peer);
  void unpause(Instant now);
  void dial(const PipelineView& view, SessionActions& out);
  void watch_reach(Instant now, SessionActions& out);
  bool way_round() const { return !router() && senders > 1; }
  void hand_back(SessionActions& out);

  // ---- steps
  bool counts_as_last(const RouterProgress& p) const { return p.last && p.done_through >= from; }
  bool all_done(std::int64_t step_asked) const;
  bool at_end() const;
  void advance(SessionActions& out);
  void begin_opening(const OpenRound& round, SessionActions& out);
  void finish_step(std::int64_t next, SessionActions& out);
  void enter_step(std::int64_t next, SessionActions& out);
  void take_step(std::int64_t which, bool drained, SessionActions& out);
  void close_book(std::int64_t of_step);
  void reach_boundary(SessionActions& out);
  void stop_now(SessionActions& out);
  void join_the_end(SessionActions& out);
  bool is_waited_for() const;
  void sit_out(SessionActions& out);
  void end_now(SessionActions& out);
  void note_progress();
  std::int64_t own_done() const;
  bool own_last() const;
  bool evaluating() const;
  std::int64_t to_draw(std::int64_t of_step) const;
  bool done_with(std::int64_t of_step) const;
  bool logits_allowed() const;
  void admit();
  bool admit_one();
  bool admit_evaluation();
  bool merge(const std::vector<RouterProgress>& routers_heard);
  void hear(const StepWord& word);
  bool told_by(const StepWord& word) const;
  void changed(bool urgent_news);
  void spread(Instant now, SessionActions& out);
  void void_evaluations(SessionActions& out);

  SessionOptions options;
  // Tasks.
  std::vector<Task> slots;
  std::vector<std::uint32_t> free_slots;
  std::uint64_t serial = 0;
  std::vector<std::pair<Microbatch, TaskId>> index;  // sorted; several tasks may share a microbatch
  DueHeap ready, waiting;
  std::vector<TaskId> parked, asked_logits;
  TaskId computed_task = 0;
  std::array<StepBook, 2> books;  // of step s: books[s % 2]
  RetryBudget budget;
  double retry_tokens = 0;
  Instant refilled;
  SessionStats stats;

  // Who is there.
  std::int64_t view_number = -1;
  bool in_view = false;
  std::int32_t members = 0, senders = 0, before = 0, next = 0;  // all, my stage, its neighbours
  double next_speed = 0;                                        // sum; 0: not all are known
  std::int32_t window = 1, received_max = 0;  // own microbatches; tasks of one sender
  std::vector<ReplicaId> routers;             // sorted
  FlatMap<ReplicaId, Peer> peers;
  std::vector<PipelineMember> dialled;
  std::vector<Pause> pauses;
  Wiring wiring;
  std::optional<Instant> unreachable_since;
  bool cut_off = false;

  // Where we are. `check`: something that the barrier looks at has changed.
  RoundNumber held = 0;
  std::int64_t opening = 0, step = 0;  // the step that the held state opens; the current one
  std::int64_t from = 0, to = 0, per_step = 0;
  bool training = false, closing = false, stopping = false, stopped = false, check = true;
  std::int64_t heard = -1;  // highest step told for this round
  FlatMap<ReplicaId, RouterProgress> progress;
  StepWord ahead;  // of a round after this one; round 0: none
  std::uint64_t version = 1;
  bool urgent = false, news = false, newcomer = false;
  std::optional<std::pair<Steps, Steps>> opened;  // since the last commit
  std::optional<Instant> word_due;
  std::vector<Evaluation> evaluations;
  std::int64_t logits_index = 0;
  bool sampling = false;
  // Since the last boundary.
  Tokens added_tokens, drawn_tokens;
  std::int64_t drawn_sum = 0;
  double loss_sum = 0;
};

}  // namespace shoal::swarm
