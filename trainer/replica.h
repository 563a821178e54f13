// One replica as this trainer works on it: learner, anchor and outer momentum, the participant that
// knows the rounds, and the work that is under way. A method that returns a failure leaves the
// replica unusable; the worker reports it and lets go.
//
// The pseudo-gradient is computed at the boundary and kept until the commit. Local parameters are
// touched by inner steps and commits only, so an abort needs no undoing. With sync.algorithm = none
// the outer step adopts the local parameters as they are and no peer is spoken to.
//
// Belongs to the compute thread.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "outer_opt/core/participant.h"
#include "trainer/background.h"
#include "trainer/donor_shelf.h"
#include "trainer/event_queue.h"
#include "trainer/learner.h"

namespace shoal::trainer {

struct ReplicaContext {  // what outlives a replica
  DeviceChoice device;
  EventQueue& queue;
  outer_opt::PeerNode& node;
  DonorShelf& shelf;
  std::function<void(const FromTrainer&)> say;
};

class Replica {
 public:
  Replica(const LoadReplica& command, ReplicaContext context);
  ~Replica();  // stops work in the background

  ReplicaId id() const { return id_; }

  MaybeFailure load();  // says Loaded, at once or after fetch_ended()
  MaybeFailure fetch_ended(const FetchEnded& event);
  void say_loaded() const;  // again, when it is loaded

  // Round commands. Before Loaded they are dropped: the coordinator repeats what still matters.
  template <typename Command>
  MaybeFailure obey(const Command& command) {
    if (!participant_) return std::nullopt;
    decide(command);
    return perform();
  }
  MaybeFailure reduce_ended(const ReduceEnded& event);
  void evaluate(const Evaluate& command);
  void adam_wanted();
  Status write_checkpoint_to(const std::filesystem::path& folder, const RoundKey& key);

  // One batch of pending evaluation, or one inner step; false: there is nothing to do.
  bool has_work() const { return participant_ && (!evaluations_.empty() || training_); }
  MaybeFailure work();

 private:
  struct Evaluation {
    Evaluate command;
    std::int64_t next = 0;  // batch
    EvalSum sum;
  };
  struct Training {
    OpenRound round;
    std::int64_t done = 0;  // inner steps of this lease
  };
  struct Totals {  // since the last commit that was applied
    Tokens tokens;
    Steps steps;
    double loss_sum = 0;  // nats, over `tokens`
    std::int64_t skipped = 0;
    double compute_s = 0;
  };

  void decide(const OpenRound& c) { participant_->open(c, actions_); }
  void decide(const CloseRound& c) { participant_->close(c, actions_); }
  void decide(const ReducePlan& c) { participant_->reduce(c, actions_); }
  void decide(const CommitRound& c) { participant_->commit(c, actions_); }
  void decide(const AbortRound& c) { participant_->abort(c, actions_); }

  MaybeFailure load_checkpoint();
  void start_fetch();
  MaybeFailure loaded();

  MaybeFailure perform();  // the actions, and those that follow from them
  MaybeFailure perform_one(const outer_opt::Train& action);
  MaybeFailure perform_one(const outer_opt::StopTraining& action);
  MaybeFailure perform_one(const outer_opt::StartReduce& action);
  MaybeFailure perform_one(const outer_opt::StopReduce& action);
  MaybeFailure perform_one(const outer_opt::TakeOuterStep& action);
  MaybeFailure perform_one(const outer_opt::Say& action);
  MaybeFailure perform_one(const outer_opt::GoStale& action);

  MaybeFailure train_one_step();
  MaybeFailure evaluate_one_batch();
  void reach_boundary();
  RoundReport make_report();
  void take_outer_step();
  void adopt_average_locally(const ReducePlan& plan);
  void say_progress(const StepResult& step);
  bool local_moved() const { return totals_.steps.count() > 0; }
  bool solo() const { return spec_.sync.algorithm == SyncAlgorithm::kNone; }

  LoadReplica command_;
  ReplicaContext context_;
  ReplicaId id_;
  JobSpec spec_;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<Learner> learner_;
  std::shared_ptr<OuterState> outer_;       // of the round the participant holds
  std::unique_ptr<AdamCopy> fetched_adam_;  // while the state comes from a donor
  std::vector<float> pseudo_gradient_, average_;
  std::optional<outer_opt::Participant> participant_;
  outer_opt::Actions actions_;
  std::optional<Training> training_;
  std::deque<Evaluation> evaluations_;
  Totals totals_;
  Steps held_step_;  // of the job's schedule, at the round it holds
  std::chrono::steady_clock::time_point progress_at_;
  Tokens progress_tokens_;
  Background background_;  // last: its thread ends before anything it uses
};

}  // namespace shoal::trainer
