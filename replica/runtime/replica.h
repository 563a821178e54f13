// One replica as this trainer works on it: the model or a stage of it, the participant that knows
// the rounds, the outer loop that knows what becomes of the weights (replica/core/outer_loop.h),
// the training between two boundaries (alone or in a pipeline), and the work that is under way. A
// method that returns a failure leaves the replica unusable; the worker reports it and drops it.
//
// With sync.outer_state = sharded the ranges of outer momentum that a plan moves here are fetched
// before its reduce (replica_momentum.cc). A checkpoint needs all ranges: they are gathered while
// training continues, but the next boundary waits for them, since nobody keeps those of a past
// round.
//
// A checkpoint has the moments of the inner optimizer as they were at the cut, though training goes
// on before it is written: where one is due they are copied to the host at the commit, with
// sync.overlap_steps at the boundary (replica_checkpoint.cc). A thread of its own writes it where
// the ComputeHost allows that.
//
// Belongs to the compute thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "outer_opt/core/participant/participant.h"
#include "outer_opt/transport/state_join.h"
#include "replica/core/join_target.h"
#include "replica/core/outer_loop.h"
#include "replica/runtime/background.h"
#include "replica/runtime/device_outer_vectors.h"
#include "replica/runtime/event_queue.h"
#include "replica/runtime/pipeline_training.h"
#include "replica/runtime/state_server.h"
#include "replica/runtime/training.h"

namespace shoal::replica {

struct ReplicaContext {  // what outlives a replica
  ComputeHost& compute;
  EventQueue& queue;
  outer_opt::PeerNode& node;
  StateServer& state_server;
  MakeRuntime make_runtime;
  std::function<void(const FromTrainer&)> say;
  TrainerReady ready = {};  // said again after each Release: the compute thread has obeyed
};

class Replica {
 public:
  Replica(const LoadReplica& command, ReplicaContext context);
  ~Replica();  // stops work in the background

  ReplicaId id() const { return id_; }
  const JobSpec& spec() const { return spec_; }

  MaybeFailure load();  // says Loaded, at once or after join_ended()
  void join_moved(const JoinMoved& event);
  bool fetches_moments() const;
  MaybeFailure join_ended(const JoinEnded& event);
  // The same assignment once more: says Loaded again. A joiner whose state is of an earlier round
  // than the one it names follows first.
  void assigned_again(const Assign& assign);

  // Round commands. Before Loaded they are dropped: the coordinator repeats what still matters.
  template <typename Command>
  MaybeFailure obey(const Command& command) {
    if (auto failure = enter()) return failure;
    if (!participant_) return std::nullopt;
    decide(command);
    return perform();
  }
  MaybeFailure reduce_ended(const ReduceEnded& event);
  MaybeFailure evaluate(const Evaluate& command);
  void momentum_gathered(const MomentumGathered& event);
  void checkpoint_written(const CheckpointWritten& event);
  void moments_wanted();
  // Says CheckpointReady (when a sample is being written: after it, which is soon) or
  // CheckpointFailed, once it is written; one at a time, a second waits for the first.
  // kDigestMismatch: memory does not hold any more what was said to be held.
  MaybeFailure write_checkpoint_to(const WriteCheckpointTo& command);

  MaybeFailure view(const PipelineView& view);

  // One piece of training or evaluation. idle(): how long there is none when nothing happens.
  Duration idle() const;
  MaybeFailure work();

 private:
  void decide(const OpenRound& c) { participant_->open(c, actions_); }
  void decide(const CloseRound& c) { participant_->close(c, actions_); }
  void decide(const ReducePlan& c) { participant_->reduce(c, actions_); }
  void decide(const CommitRound& c) { participant_->commit(c, actions_); }
  void decide(const AbortRound& c) { participant_->abort(c, actions_); }
  void decide(const ResumeAt& c) { participant_->resume(c, actions_); }

  MaybeFailure make_compute();
  MaybeFailure begin();  // from the seed, or the weights that model.init names
  MaybeFailure load_checkpoint();
  void start_join();
  void go_on_joining();
  MaybeFailure enter();
  MaybeFailure loaded(const RoundKey& held);
  void say_loaded() const;
  void say_loaded(const RoundKey& held, const OuterState& state) const;
  MaybeFailure place_vectors(const OuterState& state, OuterLoopSetup& setup);

  MaybeFailure check_memory() const;
  MaybeFailure perform();  // the actions, and those that follow from them
  MaybeFailure perform_one(const outer_opt::Train& action);
  MaybeFailure perform_one(const outer_opt::StopTraining& action);
  MaybeFailure perform_one(const outer_opt::StartReduce& action);
  MaybeFailure perform_one(const outer_opt::StopReduce& action);
  MaybeFailure perform_one(const outer_opt::TakeOuterStep& action);
  MaybeFailure perform_one(const outer_opt::Say& action);
  MaybeFailure perform_one(const outer_opt::ReturnToAnchor& action);
  MaybeFailure perform_one(const outer_opt::GoStale& action);

  // The moments of the inner optimizer when it came to a committed state; ddp has them in the outer
  // state.
  struct CutMoments {
    RoundKey key;
    std::int64_t step = 0;    // as the optimizer counts
    std::vector<float> m, v;  // empty where no checkpoint is due
  };
  bool checkpoint_due(RoundNumber round) const;
  CutMoments read_moments(const RoundKey& key) const;
  CutMoments moments_at(const RoundKey& key) const;  // read where a checkpoint is due
  void come_to_cut(const RoundKey& key);
  // A checkpoint that is being written, of vectors that nobody changes: the next outer step copies
  // a state that is held here.
  struct Writing {
    WriteCheckpointTo command;
    std::shared_ptr<const OuterState> state;
    std::shared_ptr<const CutMoments> moments;            // null: they are in the state
    std::unique_ptr<const outer_opt::Restaged> gathered;  // null: the state has all momentum
    Steps step;                                           // held_step_
    std::string sample;
    bool awaits_sample = false;                // it is being written, too
    Result<WrittenPart> part = WrittenPart();  // once the work has ended
  };
  void start_writing(const WriteCheckpointTo& command,
                     std::unique_ptr<const outer_opt::Restaged> gathered);
  Result<WrittenPart> write_files(const Writing& writing) const;  // on any thread
  void end_writing();                                             // waits for it
  void say_written(Writing written);
  void say_failed(const WriteCheckpointTo& command, const Error& error) const;
  void start_gathering(const WriteCheckpointTo& command);
  void end_gathering();
  void sample(const CommitRound& commit);
  void sampled(std::string text);

  void reach_boundary(const Trained& trained);
  RoundReport make_report(const Trained& trained);
  void return_from_nonfinite();
  void clear_moments();
  MaybeFailure device_failure() const;
  void rest();
  outer_opt::ReduceResult audit(const ReducePlan& plan, bool contributes, std::stop_token stop);
  outer_opt::ReduceResult reduce(const ReducePlan& plan, bool contributes, std::stop_token stop);
  outer_opt::ReduceResult reduce_on_host(const ReducePlan& plan, bool contributes,
                                         std::stop_token stop);
  outer_opt::ReduceResult reduce_from_device(const ReducePlan& plan, bool contributes,
                                             std::stop_token stop);
  std::optional<outer_opt::ReduceError> fetch_momentum(const ReducePlan& plan,
                                                       std::stop_token stop);
  std::unique_ptr<Training> make_training();
  bool in_pipeline() const { return cut_.size() > 1; }

  LoadReplica command_;
  ReplicaContext context_;
  ReplicaId id_;
  JobSpec spec_;
  std::vector<UnitRange> cut_;  // of all stages; one range for a whole model
  StageIndex stage_ = 0;
  std::unique_ptr<Compute> compute_;
  std::unique_ptr<HeldParameters> parameters_;  // its
  struct Loading {                              // before there is a loop
    std::unique_ptr<OuterAlgorithm> algorithm;
    std::shared_ptr<OuterState> state;
    std::vector<outer_opt::Fragment> fragments;
  };
  // The state of a joiner on its way, and then until its first command: the job may continue before
  // it takes part.
  struct Joining {
    outer_opt::MomentsCopy moments;
    std::unique_ptr<OuterStateTarget> target;
    std::optional<outer_opt::JoinSession> session;  // while it runs, its thread's
    outer_opt::JoinNews news;
    bool level = false;
    std::vector<ReplicaId> refused;  // sources that gave other bytes than the committed ones
  };
  std::unique_ptr<Loading> loading_;
  std::unique_ptr<Joining> joining_;
  std::unique_ptr<OuterLoop> loop_;
  DeviceOuterVectors* on_device_ = nullptr;  // of the loop; null: it computes on the host
  std::optional<outer_opt::Participant> participant_;
  outer_opt::Actions actions_;
  std::unique_ptr<Training> training_;
  RoundKey training_key_;
  std::optional<PipelineView> view_;  // that came before the state was here
  Steps held_step_;                   // of the job's schedule, at the round it holds
  bool first_member_ = false;         // of the newest plan: it samples
  bool sampling_ = false;
  std::string sample_;                             // of the state it holds; empty: none
  std::vector<CheckpointReady> unsaid_;            // while sampling
  std::shared_ptr<const CutMoments> cut_moments_;  // of the state it holds
  std::optional<CutMoments> next_cut_;             // of the boundary that it went on behind
  std::int64_t own_states_ = 0;                    // copies for joiners, so that each has a number
  struct Gathering {
    WriteCheckpointTo command;
    outer_opt::Restaged momentum;
    Status status;  // once the work has ended
  };
  std::unique_ptr<Gathering> gathering_;  // of a checkpoint that waits for its momentum
  Background gatherer_;
  std::unique_ptr<Writing> writing_;
  Background writer_;
  Background background_;  // last: its thread ends before anything it uses
};

}  // namespace shoal::replica
