// The pipeline in virtual time: routers, replicas with one computing lane and two queues, uplinks
// that serialize what they carry, latency between regions, step barriers, deaths, returns and
// moves. What is decided is decided by the real cores (wiring, retry budget, rebalancing,
// assignment); the engine only moves time, and counts with a few words per microbatch what a
// StageSession knows exactly (swarm/core/session/stage_session_simulation_test.cc is the place
// where the session itself runs).
//
// Every replica of stage 0 is a router: it draws its share of a step by its speed, computes stage 0
// for it and has a wiring of its own for every later stage. When it is lost, what it had under way
// is void as soon as that is known, and the step ends without it; another replica of stage 0 draws
// from the next step on. Chains have one router that never fails.
//
// A tensor passes sender and receiver cut-through: both links are booked when it is sent. Not
// modeled: packets, CPU time of encoding, and a wiring per hop (docs/simulation.md, "Pipelines
// against the ideal"). pipeline.cc holds the traffic, membership.cc who is there.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "base/prng.h"
#include "swarm/core/plan/rebalance.h"
#include "swarm/core/session/retry_budget.h"
#include "swarm/core/session/wiring.h"
#include "tests/sim/swarm/events.h"
#include "tests/sim/swarm/options.h"

namespace shoal::sim::swarm {

class Pipeline {
 public:
  explicit Pipeline(const Options& options);
  Measured run();

 private:
  struct Task {
    std::int64_t age;  // of its microbatch: the smaller goes first
    std::int32_t microbatch;
    std::uint32_t serial;
    bool backward;
  };
  struct Agent {
    std::int32_t stage = 0;
    double speed = 1;
    bool serving = false, dead = false;
    bool busy = false;
    bool death_known = false;  // moved: its clock runs on
    std::int32_t incarnation = 0;
    std::int32_t computed_ahead = 0;  // 1F1B: forwards without their backward
    std::uint32_t lane = 0;           // raised when what is computing is lost
    std::int32_t router = -1;         // of stage 0: its place in routers_
    Task running{};
    Duration service;
    std::vector<Task> forwards, backwards;  // the next one at the end
  };
  struct Link {
    std::int64_t up_free_ns = 0, down_free_ns = 0;
  };
  struct Hop {  // one microbatch at one stage; 8 bytes, because millions are touched in turn
    std::int32_t agent = -1;
    std::uint32_t incarnation : 30 = 0;
    std::uint32_t recompute : 1 = 0;  // the backward went elsewhere than the forward
    std::uint32_t added : 1 = 0;      // this replica has counted the gradient
  };
  struct Microbatch {  // a slot, used again when its microbatch was answered
    std::int64_t age = 0;
    std::uint32_t serial = 0;  // over all uses
    std::int32_t stage = 0;    // where it is, or is going
    bool backward = false, open = false, waiting = false;
  };
  struct Share {  // a router's part of one step
    std::int64_t quota = 0, admitted = 0, answered = 0;
  };
  struct Router {  // a place; who takes it over continues with its wirings
    std::int32_t agent = -1, incarnation = 0;    // none: it was lost; none with chains
    std::vector<::shoal::swarm::Wiring> wiring;  // per stage, of stage 0 empty
    std::vector<std::deque<Task>> waiting;       // per stage, for a credit
    std::vector<std::int32_t> free;              // slots
    std::array<Share, 2> shares;                 // of steps with this number modulo 2
    std::int32_t outstanding = 0, window = 1;
    ::shoal::swarm::RetryTokens retries{Instant{}};
  };

  // Traffic.
  void handle(const Event& event);
  void open_steps();
  bool may_open(std::int64_t step) const;
  bool ends_round(std::int64_t step) const;
  void open_step();
  void share_step();
  void admit(std::int32_t router);
  Task take_slot(std::int32_t router, std::int64_t step);
  void fill_chains();
  std::int32_t choose_chain(std::int64_t position, std::vector<double>& load) const;
  bool forward_to(std::int32_t stage, Task task);  // false: it waits for a credit
  void send(std::int32_t from, std::int32_t to, Task task, std::int32_t stage);
  std::int64_t transfer(std::int32_t from, std::int32_t to, std::int64_t bytes);
  void arrive(const Event& event);
  bool may_start_forward(const Agent& agent) const;
  bool may_start_backward(const Agent& agent) const;
  void start(std::int32_t agent);
  void start_task(std::int32_t agent, Task task);
  void computed(const Event& event);
  void forward_done(std::int32_t agent, Task task);
  void backward_done(std::int32_t agent, Task task);
  void last_stage_done(std::int32_t agent, Task task);
  void return_credit(std::int32_t agent, std::int32_t microbatch);
  void credit(const Event& event);
  void answer(const Event& event);
  bool complete(std::int64_t step) const;
  void step_over();
  void end_steps();
  Duration farthest() const;
  void measure(std::int32_t agent, Task task);
  bool current(std::int32_t microbatch, std::uint32_t serial) const;
  std::int32_t router_of(std::int32_t microbatch) const { return microbatch / slots_; }
  std::size_t hop_at(std::int32_t microbatch, std::int32_t stage) const {
    return static_cast<std::size_t>(microbatch) * options_.stages + stage;
  }
  Hop& hop(std::int32_t microbatch, std::int32_t stage) { return hops_[hop_at(microbatch, stage)]; }
  Duration latency(std::int32_t from, std::int32_t to) const;
  void schedule(EventKind kind, std::int64_t at_ns, std::int32_t microbatch, std::int32_t agent,
                std::uint32_t serial, std::int32_t stage);
  Duration service_of(const Agent& agent, Task task);
  bool chained() const {
    return options_.schedule != Schedule::kSwarm && options_.schedule != Schedule::kTwoBuffered;
  }
  // How many steps are under way at once.
  std::int64_t overlap() const { return options_.schedule == Schedule::kTwoBuffered ? 2 : 1; }

  // Membership.
  std::int32_t add_router();
  void take_place(std::int32_t agent);
  void lose_router(std::int32_t agent);
  void void_open(Router& router, std::int32_t place);
  void place_agents();
  void form_chains();
  Duration expected_service(const Agent& agent) const;
  std::int32_t credits_of(const Agent& agent) const;
  void join_wirings(std::int32_t agent);
  void leave_wirings(std::int32_t agent, std::int32_t incarnation, std::int32_t stage);
  void schedule_deaths();
  void die(const Event& event);
  void detected(const Event& event);
  void come_back(const Event& event);
  void ready(const Event& event);
  void lose_work(std::int32_t agent);
  void retry_lost(std::int32_t agent, std::int32_t incarnation);
  void retry(std::int32_t microbatch, std::int32_t stage);
  void retry_again(std::int32_t microbatch);
  void retry_naively(const Event& event);
  void restart_chains();
  ::shoal::swarm::RebalanceView view() const;
  void apply(const ::shoal::swarm::Move& move);
  void emergency();
  void rebalance();
  void account();  // integrates the bound up to now
  ReplicaId replica_id(std::int32_t agent, std::int32_t incarnation) const {
    return ReplicaId((static_cast<std::uint64_t>(incarnation) << 24) +
                     static_cast<std::uint64_t>(agent) + 1);
  }

  const Options& options_;
  Prng prng_;
  EventHeap events_;
  Instant now_;
  std::vector<Agent> agents_;
  std::vector<Link> links_;
  std::vector<Router> routers_;
  std::vector<Microbatch> microbatches_;
  std::vector<Hop> hops_;
  std::vector<std::int64_t> sent_ns_;              // by hop; only the weights by response time ask
  std::vector<std::vector<std::int32_t>> chains_;  // agents by stage
  std::vector<std::int32_t> chain_of_;             // microbatch
  std::vector<std::int32_t> chain_count_, chain_forwarded_;
  std::vector<::shoal::swarm::Move> moves_;  // at the next step boundary
  ::shoal::swarm::Rebalancer rebalancer_;
  std::int32_t slots_ = 0;  // of one router
  std::int32_t dead_ = 0;
  std::int64_t opened_ = 0, completed_ = 0;  // steps
  std::int64_t step_began_ns_ = 0, accounted_ns_ = 0, ended_ns_ = 0;
  double bound_integral_ = 0, total_speed_ = 0;
  bool between_steps_ = true, waits_for_router_ = false;
  std::vector<double> step_s_;
  Measured measured_;
};

}  // namespace shoal::sim::swarm
