// A simulated trainer process: the real Participant, OuterLoop and ReduceSession around a small
// vector (parameters.h). Its agent starts, commands and kills it. On the host of a reducer it loads
// nothing and serves reduces only. In a pipeline each stage has its slice of the vector, and the
// real StageSession decides what is computed, sent and added, and when the round is over
// (stage_driver.h). Simulated is what a microbatch does to the slice. Evaluation takes no passes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "agent/core/io.h"
#include "outer_opt/core/joining/state_source.h"
#include "outer_opt/core/participant/participant.h"
#include "outer_opt/core/participant/reducer.h"
#include "outer_opt/core/participant/router_lease.h"
#include "outer_opt/core/participant/step_cursor.h"
#include "outer_opt/core/reduce/make_session.h"
#include "outer_opt/core/round/groups.h"
#include "tests/sim/peers.h"
#include "tests/sim/process.h"
#include "tests/sim/sim.h"
#include "tests/sim/trainer/agent_line.h"
#include "tests/sim/trainer/copies.h"
#include "tests/sim/trainer/lie.h"
#include "tests/sim/trainer/parameters.h"
#include "tests/sim/trainer/planted_loop.h"
#include "tests/sim/trainer/stage_driver.h"

namespace shoal::sim {

// By how much training on a sequence moves value i of the model.
float update(std::uint64_t seed, std::int64_t sequence, std::size_t i);

class Trainer final : public PeerEnd, public StageOwner {
 public:
  Trainer(Sim& sim, PeerNetwork& peers, TrainerOwner& owner, int host, int slot);

  void start(std::uint64_t generation);
  void kill(int signal);  // no-op when it is not alive
  void pause();
  void resume() { process_.resume(); }
  void command(const ToTrainer& message);  // by the agent
  // It continues with what it has, for as long as an agent may take to come back.
  void lose_agent() {
    line_.lose_agent([this] { kill(0); });
  }
  void find_agent(Duration delay, std::function<bool()> answers) {
    line_.find_agent(delay, std::move(answers));
  }
  agent::TrainerId id() const { return id_; }

  void slow(Instant until, int factor) { slow_until_ = until, slow_factor_ = factor; }
  void poison() { poisoned_ = true; }  // the next report has non-finite values
  Lie& lie() { return lie_; }
  void give_up(ReplicaFailure failure) { fail(failure, "simulated"); }
  // Its replica gets less than it needs, and so does every one as large that comes later.
  void run_out_of_memory();
  // A bit of anchor, outer momentum or an average that waits for its commit. Only where held().
  void flip_memory();
  void flip_next_transfer() { flip_transfer_ = true; }  // of state that it gives away
  bool busy() const { return replica_.has_value(); }
  bool reducing() const {
    return replica_ && (replica_->session || (replica_->staging && !replica_->staging->ended));
  }
  std::uint64_t generation() const { return id_.generation; }
  const Assign& assignment() const { return replica_->assign; }  // when it is busy
  ReplicaId replica() const { return replica_ ? replica_->id : ReplicaId{}; }
  // The replica it serves and the state that one holds.
  std::optional<RoundKey> held() const;
  std::span<const float> anchor() const { return replica_->loop->state().anchor; }  // where held()
  const Copies* copies() const { return replica_ ? replica_->copies.get() : nullptr; }
  int host() const override { return host_; }
  std::string address() const override;
  bool alive() const override { return process_.alive(); }
  bool frozen() const override { return process_.paused(); }
  void deliver(std::function<void()> work) override;
  void take_frame(const PeerFrame& frame) override;
  void peer_lost(const std::string& address, const std::string& detail) override;

 private:
  friend class Copies;
  struct State {  // what a replica begins with, but the shards
    RoundKey key;
    replica::OuterState outer;
  };
  // Ranges of sharded momentum that are under way to a replica here.
  struct Gathering {
    ReplicaId replica;
    RoundKey key;
    outer_opt::Restaged staged;
    std::size_t left = 0;
    std::function<void(Gathering&, ReplicaId lost)> done;
    bool ended = false;
  };
  struct Kept {  // a pseudo-gradient and what it was taken from
    RoundKey base;
    Digest base_anchor;
    std::vector<float> values;
  };
  struct Session {
    ReducePlan plan;
    std::vector<float> mine, as_read;  // the contribution that goes in, and as it was read
    outer_opt::VectorSource source;    // of the contribution
    std::vector<std::byte> encoded;    // sparse2
    std::vector<float> momentum;       // of the own part, when sharded
    std::vector<float> clip_center;    // in a group
    std::vector<float> part;           // of a reducer, which has no loop: the average of its part
    std::unique_ptr<outer_opt::ReduceSession> machine;
    std::vector<std::deque<PeerFrame>> inbox;
    std::int64_t sent = 0, received = 0;
    Instant started;
    bool ended = false;
  };
  struct Joining;  // trainer/joining.cc
  struct Replica {
    Replica() {}  // clang 14 cannot derive it inside the class that holds an optional of it
    ReplicaId id;
    Assign assign;
    Digest data;  // that it trains on; zero: a later stage reads none
    std::unique_ptr<SimulatedParameters> local;  // none before it loaded, as the next two
    std::unique_ptr<PlantedLoop> loop;
    std::unique_ptr<outer_opt::Participant> participant;
    Kept kept, kept_before;  // of this round and, for a planted bug, of the one before
    std::unique_ptr<outer_opt::Reducer> reducer;  // in its place
    PipelineView view;                            // the newest; a job of one stage has none
    std::optional<outer_opt::StepCursor> cursor;  // with one stage; the next two are of a pipeline
    std::optional<outer_opt::RouterLease> lease;
    std::shared_ptr<StageDriver> stage;
    bool stop = false;
    OpenRound open;
    bool training = false;           // the end of an inner step is scheduled
    std::vector<DataLease> trained;  // in the pseudo-gradient to come; of a router
    std::size_t reported = 0;        // how many of them were
    std::int64_t handled = 0;        // sequences in it that routers drew; of a later stage
    Steps steps;
    RoundKey adopting;
    std::int32_t adopting_fragment = 0;  // of the newest commit
    bool has_average = false;            // that waits for its commit
    std::shared_ptr<Session> session;
    std::shared_ptr<Gathering> staging;    // for the reduce to come
    std::shared_ptr<Gathering> gathering;  // for a checkpoint
    std::shared_ptr<Joining> joining;      // until it enters
    std::vector<ReplicaId> refused;        // sources that gave it other bytes
    outer_opt::StateSource shelf;          // for joiners
    std::shared_ptr<Copies> copies;        // of other stages
    std::deque<State> history;             // older states, for a planted bug
  };

  // Commands.
  void take_view(const PipelineView& view);
  void load(const LoadReplica& load);
  void maybe_flip(std::vector<float>& values, ReplicaId joiner);
  void hold(State state);
  void hold_found(State state);
  void read_data();
  outer_opt::StageSizes sizes_of(std::int64_t values) const;
  void make_loop(State state);
  void be_reducer(const Assign& assign);
  void say_loaded();
  void say_loaded(const RoundKey& held, const replica::StateDigests& digests);
  void return_to_anchor(const ResumeAt& command);
  void release(ReplicaId replica);
  TrainerReady ready() const;
  void obey(const ToTrainer& message);
  void evaluate(const RoundKey& key, const EvalSlice& slice);
  void write_checkpoint(const WriteCheckpointTo& command);
  void put_checkpoint(const WriteCheckpointTo& command, NamedVectors vectors);

  // State from peers and for them (trainer/joining.cc).
  void join();
  void join_again(const Assign& assign);
  void go_on_joining();
  void ask_state(const outer_opt::JoinSession::Ask& ask);
  void ask_failed(const std::shared_ptr<Joining>& joining, outer_opt::JoinSession::AskId id);
  void source_lost(const std::string& address);
  void give_state(const outer_opt::JoinSession::Ask& ask, PeerEnd& joiner, const Asker& asker);
  void got_answer(const std::shared_ptr<Joining>& joining, outer_opt::JoinSession::AskId id,
                  const outer_opt::StateAnswer& answer);
  void be_level();
  void enter();
  void offer_state();
  void keep_averages();

  // A stage of a pipeline (trainer/stage.cc).
  void begin_stage(const RoundKey& held, Steps step);
  void open_stage(const OpenRound& round);
  void take_stage_frame(const StageFrame& frame);
  Duration pass_time(swarm::ComputeKind kind) override;
  std::int64_t draw(const swarm::Microbatch& microbatch) override;
  void pass_begins(const swarm::Compute& pass) override;
  void add_gradient(const swarm::Microbatch& microbatch, std::int64_t first, bool again) override;
  void came_back(const swarm::Microbatch& microbatch, std::int64_t first) override;
  void took_step(const swarm::TakeStep& step) override;
  void reached(const swarm::ReachBoundary& boundary) override;
  void gave_up(const std::string& detail) override;
  void told(const PipelineStats& stats) override;

  // Sharded momentum (trainer/momentum.cc).
  std::shared_ptr<Gathering> gather_ranges(const RoundKey& key, outer_opt::Restaged staged,
                                           std::function<void(Gathering&, ReplicaId lost)> done);
  void give_momentum(const MomentumHolder& holder, PeerEnd& to,
                     const std::shared_ptr<Gathering>& gathering, int tries);
  void got_momentum(const MomentumHolder& holder, const std::shared_ptr<Gathering>& gathering,
                    const std::optional<std::vector<float>>& values);
  void end_gathering(const std::shared_ptr<Gathering>& gathering, ReplicaId lost);
  void momentum_lost(const std::string& address);
  void gather_checkpoint(const WriteCheckpointTo& command);
  void stage_momentum(const ReducePlan& plan, bool contributes);

  // Actions of the participant.
  using Actions = outer_opt::Actions;
  void act(const Actions& actions);
  void act_one(const outer_opt::Action& action);
  void stop_training(outer_opt::StopAt at);
  void train(const OpenRound& round);
  void inner_step();
  Duration own_step() const;   // of a sound device; hosts differ
  Duration step_time() const;  // of an inner step, as fast as the device is now
  void step_alone();
  void go_on();
  void adopt_result();
  const outer_opt::Fragment& values_of(std::int32_t fragment) const {
    return replica_->loop->values_of(fragment);
  }
  void settle(const CommitRound& commit, const replica::OuterLoop::Committed& committed);
  void train_on(std::int64_t sequence);
  Bytes needed_memory() const;
  bool is_router() const { return replica_->assign.stage == 0; }
  // Where the vector of this stage lies in that of the model.
  std::size_t first_value() const;
  std::size_t value_count() const;
  void boundary();
  void count_work(RoundReport& report);
  void keep_contribution();
  void show_boundary(const RoundReport& report, const std::vector<float>& before, bool begins);
  void count_end(const Session& session, const char* end);
  void start_reduce(const outer_opt::StartReduce& start);
  void open_session(const ReducePlan& plan, bool contributes);
  void open_audit(const ReducePlan& plan, bool contributes);
  void follow(const std::shared_ptr<Session>& session, const ReducePlan& plan);
  void average_alone(const ReducePlan& plan, const Digest& average);
  const Kept& what_to_give(bool contributes);
  bool lies(Fault how, const ReducePlan& plan);
  void exaggerate(Session& session);
  std::shared_ptr<Session> make_inputs(const ReducePlan& plan, bool contributes);
  ReducePlan plan_to_follow(ReducePlan plan);
  Status make_machine(Session& session, const ReducePlan& plan);
  void take_early_frames(Session& session);
  void end_of_time(const std::shared_ptr<Session>& session);
  void pump(const std::shared_ptr<Session>& session);
  bool work_locally(Session& session);
  bool take_inbox(Session& session);
  bool send_frames(Session& session);
  void reduce_done(Session& session);
  void audit_done(const Session& session);
  void reducer_done(Session& session);
  PartSeen seen(const Session& session);
  void tell_failed(const ReduceFailed& failure);
  void reduce_broken(Session& session, const outer_opt::SessionFailure& failure);
  void end_session(bool tell_peers);
  void peer_left(const RoundKey& key, std::int32_t attempt, ReplicaId peer);
  void outer_step(const CommitRound& commit);
  void take_outer_step(const CommitRound& commit);
  void show_state(const RoundKey& key);
  void show_outer_step(const CommitRound& commit, const replica::OuterState& before);
  void forget_counted(std::size_t sequences);
  bool in_groups() const { return outer_opt::averages_in_groups(replica_->assign.spec.sync); }
  void show_contribution(const Kept& kept, const Session& session);

  void say(const FromTrainer& message);
  void fail(ReplicaFailure failure, const std::string& detail);
  void end_replica();
  std::string device_name() const;

  Sim& sim_;
  PeerNetwork& peers_;
  TrainerOwner& owner_;
  Process process_;
  AgentLine line_;
  Prng prng_;
  const int host_;
  agent::TrainerId id_;
  std::optional<Replica> replica_;
  // Frames of attempts that were not announced to us yet.
  std::deque<PeerFrame> early_;
  std::deque<std::tuple<RoundKey, std::int32_t, ReplicaId>> left_early_;
  Instant slow_until_;
  int slow_factor_ = 1;
  Lie lie_;
  bool poisoned_ = false, stopping_ = false, flip_transfer_ = false;
};

}  // namespace shoal::sim
