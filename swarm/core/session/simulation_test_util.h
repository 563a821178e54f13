// A small pipeline in virtual time for tests: sessions joined by streams that lose nothing but may
// break, a device per replica, and a coordinator that hands out views and rounds late and unevenly.
// Faults are drawn from the seed. It keeps its own books of every task, gradient and credit and
// writes what does not fit into `problems`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/overloaded.h"
#include "base/prng.h"
#include "swarm/core/session/stage_session.h"

namespace shoal::swarm {

inline constexpr std::int64_t kSequencesOfSimulation = 2,
                              kContextOfSimulation = 8;  // of a microbatch

std::string text(const Microbatch& microbatch);

struct SimulationOptions {
  std::uint64_t seed = 1;
  std::int32_t stages = 3, replicas_max = 3;  // of a stage, at the start
  std::int32_t rounds = 3;
  std::int64_t steps = 3, microbatches_max = 12;  // of a round; of a router and step
  PipelineSchedule schedule = PipelineSchedule::kFlush;
  bool speeds = true;  // the view tells them
  Duration latency_max = milliseconds(40);
  // Faults: the mean time between two of a kind in the whole pipeline; zero: none.
  // A cut takes all lines of one replica to its next stage, or those of everybody, for long.
  Duration breaks, deaths, freezes, joins, cuts;
  double close = 0, abort = 0, stop = 0, evaluate = 1, logits = 0;  // chance per round
  // Planted bugs.
  double lose_answer = 0;   // a frame vanishes though its stream stays
  double swap_answer = 0;   // the driver keeps the gradient under another task
  bool deaf = false;        // the driver does not tell that a stream ended
  double early_gossip = 0;  // a router's gossip is a step ahead of it
  bool always_add = false;  // the device adds every gradient
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);
  void run();  // until all rounds are committed or nothing can end any more

  std::vector<std::string> problems;
  std::int64_t breaks = 0, deaths = 0, freezes = 0, joins = 0, closes = 0, aborts = 0, stops = 0;
  std::int64_t cuts = 0, cuts_of_all = 0, cut_offs = 0;
  std::int64_t resent = 0, answered_only = 0, evaluated = 0, logits = 0, gossips = 0;
  std::int64_t twice = 0;        // gradients that a second replica of a stage added
  std::int64_t added_again = 0;  // those that may be, as the replicas counted them
  std::int64_t microbatches = 0, past = 0, void_evaluations = 0, calls = 0;
  std::int64_t ahead = 0;  // passes computed of a step whose predecessor was not over
  Digest trace() const { return trace_.finish(); }
  Instant now() const { return now_; }

 private:
  struct Forwarded {
    ForwardHeader header;
    std::uint64_t instance;  // of the output
  };
  struct Answered {
    BackwardHeader header;
    std::uint64_t instance;  // of the output that this is the gradient of
  };
  struct Cancelled {
    ForwardHeader header;
  };
  struct Refused {
    ForwardHeader header;
    RefusalReason reason;
  };
  using Frame = std::variant<Forwarded, Answered, Cancelled, Refused, ProgressGossip>;

  struct KnownTask {
    Microbatch microbatch;
    bool queued = true, backward = false;
    std::uint64_t input = 0, output = 0;
    std::int64_t weights = -1;  // the version its forward used
  };
  struct Node {
    ReplicaId id;
    StageIndex stage = 0;
    double speed = 1;
    std::unique_ptr<StageSession> session;
    bool alive = true, frozen = false, computing = false;
    bool cut = false;                            // from its next stage
    std::vector<std::function<void()>> backlog;  // while frozen
    PipelineView view;
    std::set<ReplicaId> dials;
    std::map<TaskId, KnownTask> tasks;
    std::set<TaskId> forgotten;
    std::map<ReplicaId, std::int32_t> owed;  // forwards sent, not answered, cancelled or lost
    std::set<Microbatch> added;              // in the open steps
    std::map<std::int64_t, Tokens> step_tokens;
    Tokens added_tokens;
    // The taken steps that are in the weights. Two versions with 2bw, by parity of the step.
    std::int64_t weights[2] = {0, 0}, newest = 0;
    std::int64_t answered = 0;
    std::set<std::pair<std::int64_t, std::int32_t>> came_back;  // (step, index) since the boundary
    double loss = 0;
    std::optional<std::int64_t> boundary;
    std::int64_t drawn = 0;  // as reported at the boundary
    RoundNumber held = 0;
    Instant tick_at, told_at;  // the coordinator's stream is in order
    std::int32_t evaluations = 0;
  };
  struct Stream {
    ReplicaId dialer, acceptor;
    std::uint64_t epoch = 0;
    bool up = false, side_up[2] = {false, false};
    Instant last[2];
    bool dialing = false;
  };
  struct Event {
    Instant at;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  // Machinery.
  void at(Duration later, std::function<void()> what);
  Duration random(Duration max) { return {static_cast<std::int64_t>(prng_.below(max.ns + 1))}; }
  void describe_hang();
  void watch();
  void violate(const Node& node, const std::string& what);
  void deliver(Node& node, std::function<void()> what);
  void call(Node& node, const std::function<void(StageSession&, SessionActions&)>& what);
  void act(Node& node, SessionActions& actions);
  void pump(Node& node);
  void check_order(const Node& node, const Compute& compute);
  void check_weights(Node& node, const Compute& compute);
  bool two_versions() const { return options_.schedule == PipelineSchedule::kTwoBufferedWeights; }
  std::int64_t& weights_of(Node& node, std::int64_t step) {
    return node.weights[two_versions() ? step & 1 : 0];
  }
  void check_credit(Node& node, ReplicaId to);
  void finish(Node& node, const Compute& compute, Duration service);
  Node& node(ReplicaId id) { return *nodes_.at(id); }
  // Actions.
  void on(Node& node, const SendForward& send);
  void on(Node& node, const SendBackward& send);
  void on(Node& node, const SendCancel& send);
  void on(Node& node, const SendRefusal& send);
  void on(Node& node, const SendGossip& send);
  void on(Node& node, const Forget& forget);
  void on(Node& node, const TakeStep& step);
  void on(Node& node, const ReachBoundary& boundary);
  void on(Node& node, const CameBack& came);
  void on(Node& node, const EvaluationDone& done);
  void on(Node& node, const LogitsCame& came);
  void go_on_sampling(Node& node);
  void on(Node& node, const Dial& dial);
  void on(Node& node, const CutOff& cut_off);
  void on(Node& node, const GiveUp& give_up);
  // Streams.
  Stream& stream(ReplicaId a, ReplicaId b);
  void send(ReplicaId from, ReplicaId to, Frame frame);
  void receive(Node& to, ReplicaId from, const Frame& frame);
  void snap(Stream& stream, Duration notice_max);
  void notice(Stream& stream, int side, std::uint64_t epoch);
  void redial(Stream& stream);
  // Faults.
  void plan(Duration mean, std::int64_t& count, bool (Simulation::*fault)());
  bool break_one();
  bool kill_one();
  bool freeze_one();
  bool join_one();
  bool cut_some();
  bool is_cut(const Stream& stream);
  void kill(Node& node);
  std::vector<Node*> living(StageIndex stage = -1);
  // Coordinator.
  Node& spawn(StageIndex stage);
  void publish();
  void tell(Node& node, std::function<void(StageSession&, SessionActions&)> what);
  void draw_round_end();
  void tell_round(Node& node);
  void open_round();
  void maybe_close_round();
  void check_boundaries();
  void count_twice();
  void commit();
  void tell_commit(Node& node, RoundNumber round, std::int64_t step);
  OpenRound opening(const Node& node) const;

  SimulationOptions options_;
  Prng prng_;
  Instant now_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0, next_id_ = 1, next_instance_ = 1;
  std::map<ReplicaId, std::unique_ptr<Node>> nodes_;
  std::map<std::pair<ReplicaId, ReplicaId>, Stream> streams_;
  PipelineView view_;
  std::map<ReplicaId, std::int64_t> per_step_;  // of each router, this round
  RoundNumber round_ = 0;                       // held by all
  std::int64_t from_ = 0, to_ = 0;
  bool open_ = false, uneven_ = false;  // uneven: boundaries may differ, a router was lost
  bool stopping_ = false, ended_ = false;
  std::vector<PipelineMember> joiners_;                   // of the next round
  std::map<Microbatch, std::map<StageIndex, int>> adds_;  // of this round, per stage
  bool faults_ = false;
  Digester trace_;
};

}  // namespace shoal::swarm
