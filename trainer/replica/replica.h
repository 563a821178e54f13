// One replica as this trainer works on it: the model or a stage of it, anchor and outer momentum,
// the participant that knows the rounds, the training of them (alone or in a pipeline), and the
// work that is under way. A method that returns a failure leaves the replica unusable; the worker
// reports it and lets go.
//
// The pseudo-gradient is computed at the boundary and kept until the commit. Local parameters are
// touched by inner steps and commits only, so an abort needs no undoing. A commit changes those of
// the fragment that it averaged (outer_opt/core/step/fragments.h), with sync.overlap_steps some
// steps later; all of them where this replica had no part in it. With sync.eager a boundary changes
// them, too, and an abort takes that back (replica_eager.cc). With sync.algorithm = async one that
// had not reported moves with the anchor: its pseudo-gradient stays what it was. With none the
// outer step adopts the local parameters as they are and no peer is spoken to. With ddp local
// parameters are the anchor, and what is averaged is the gradient (outer_state.h).
// In a group (sync.topology = moshpit, gossip) anchor and outer momentum are this replica's own,
// what enters the reduce is made anew of the local parameters for each attempt, and a commit
// without an average changes nothing (RoundOutcome).
//
// With sync.outer_state = sharded the ranges of outer momentum that a plan moves here are fetched
// before its reduce (replica_momentum.cc). A checkpoint needs all ranges: they are gathered while
// training goes on, but the next boundary waits for them, since nobody keeps those of a past round.
//
// A checkpoint has the moments of the inner optimizer as they were at the cut, though training goes
// on before it is written: where one is due they are copied to the host at the commit, with
// sync.overlap_steps at the boundary (replica_checkpoint.cc).
//
// Belongs to the compute thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/core/participant/participant.h"
#include "outer_opt/core/round/groups.h"
#include "outer_opt/core/step/eager.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/cuda/device_vectors.h"
#include "trainer/model/cell_leader.h"
#include "trainer/model/stage_model.h"
#include "trainer/replica/background.h"
#include "trainer/replica/donor_shelf.h"
#include "trainer/replica/event_queue.h"
#include "trainer/replica/pipeline_training.h"
#include "trainer/replica/training.h"

namespace shoal::trainer {

struct ReplicaContext {  // what outlives a replica
  DeviceChoice device;
  EventQueue& queue;
  outer_opt::PeerNode& node;
  DonorShelf& shelf;
  MakeRuntime make_runtime;
  std::function<void(const FromTrainer&)> say;
  // Where the outer step is computed when the job suits (outer_opt::DeviceVectors); null: on the
  // host, as for all other jobs.
  outer_opt::Accelerator* accelerator = nullptr;
  // Makes the cell of a whole model, or null; none: this trainer is never in one.
  std::function<std::unique_ptr<CellLeader>(StageModel&)> make_cell;
  TrainerReady ready = {};  // said again after each Release: the compute thread has obeyed
};

class Replica {
 public:
  Replica(const LoadReplica& command, ReplicaContext context);
  ~Replica();  // stops work in the background

  ReplicaId id() const { return id_; }

  MaybeFailure load();  // says Loaded, at once or after fetch_ended()
  void fetch_moved(const FetchMoved& event);
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
  void momentum_gathered(const MomentumGathered& event);
  void adam_wanted();
  // Says CheckpointReady (when a sample is being written: after it, which is soon) or
  // CheckpointFailed. kDigestMismatch: memory does not hold any more what was said to be held.
  MaybeFailure write_checkpoint_to(const WriteCheckpointTo& command);

  void view(const PipelineView& view);

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

  MaybeFailure make_model();
  MaybeFailure load_checkpoint();
  void adopt_momentum(std::vector<float> momentum);
  void start_fetch();
  MaybeFailure loaded();
  MaybeFailure place_vectors();

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

  // The moments of the inner optimizer when it came to a committed state; ddp has them in outer_.
  struct CutMoments {
    RoundKey key;
    std::int64_t step = 0;    // as the optimizer counts
    std::vector<float> m, v;  // empty where no checkpoint is due
  };
  bool checkpoint_due(RoundNumber round) const;
  CutMoments read_moments(const RoundKey& key) const;
  CutMoments moments_at(const RoundKey& key) const;  // read where a checkpoint is due
  void come_to_cut(const RoundKey& key);
  Status write_files(const std::filesystem::path& folder, const RoundKey& key,
                     std::span<const float> momentum);
  void say_written(const WriteCheckpointTo& command, const Status& written);
  void start_gathering(const WriteCheckpointTo& command);
  void end_gathering();
  void sample(const CommitRound& commit);
  void sampled(std::string text);

  void reach_boundary(const Trained& trained);
  outer_opt::VectorFacts take_contribution();
  void read_contribution();
  void read_fragment();
  void take_note(const Status& of_device);
  RoundReport make_report(const Trained& trained);
  outer_opt::ReduceResult reduce(const ReducePlan& plan, bool contributes, std::stop_token stop);
  outer_opt::ReduceResult reduce_on_host(const ReducePlan& plan, bool contributes,
                                         std::stop_token stop);
  outer_opt::ReduceResult reduce_from_device(const ReducePlan& plan, bool contributes,
                                             std::stop_token stop);
  std::optional<outer_opt::ReduceError> stage_momentum(const ReducePlan& plan,
                                                       std::stop_token stop);
  std::span<const float> own_momentum(const ReducePlan& plan) const;
  outer_opt::ReduceInput own_input(const ReducePlan& plan, bool contributes);
  Applied before_step(const CommitRound& commit) const;
  void adopt_outer_step(const CommitRound& commit, outer_opt::Settled settled);
  void stay(outer_opt::Settled settled);
  void settle_local(outer_opt::Settled settled);
  void move_with_anchor();
  bool in_groups() const { return outer_opt::averages_in_groups(spec_.sync); }
  void adopt_fragment(double blend);
  void adopt_later();
  std::span<const float> own_contribution() const;
  void begin_eagerly();
  void take_back_eagerly();
  void learn_average(double outer_lr);
  void correct_local();
  void count_tokens_behind();
  std::string mismatch_of(const ReducePlan& plan) const;
  const outer_opt::Fragment& values_of(std::int32_t fragment) const;
  void adopt_average_locally(const ReducePlan& plan);
  std::unique_ptr<Training> make_training();
  bool in_pipeline() const { return cut_.size() > 1; }
  bool shares_adam() const { return outer_->shares_adam(); }
  bool sharded() const { return spec_.sync.outer_state == shoal::OuterState::kSharded; }
  bool solo() const { return spec_.sync.algorithm == SyncAlgorithm::kNone; }

  LoadReplica command_;
  ReplicaContext context_;
  ReplicaId id_;
  JobSpec spec_;
  std::vector<UnitRange> cut_;  // of all stages; one range for a whole model
  StageIndex stage_ = 0;
  std::shared_ptr<const Dataset> data_;  // of stage 0, which draws
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<CellLeader> cell_;        // null: this trainer computes alone
  std::shared_ptr<OuterState> outer_;       // of the round the participant holds
  std::unique_ptr<AdamCopy> fetched_adam_;  // while the state comes from a donor
  outer_opt::Fragment whole_;
  std::vector<outer_opt::Fragment> fragments_;
  std::vector<Tokens> tokens_behind_;  // by fragment: reported since it was last averaged
  Tokens tokens_reported_;             // trained for the newest report
  std::int32_t own_fragment_ = 0;      // of the pseudo-gradient
  // Null: the outer step is computed on the host, with the two vectors after it.
  std::shared_ptr<outer_opt::DeviceVectors> device_;
  std::vector<float> pseudo_gradient_;  // with ddp the gradient; of a fragment the first values
  std::vector<float> average_;          // likewise
  Digest reduced_average_;  // of it when its reduce was done: the vote names the bytes it came in
  std::pair<Digest, Digest> held_digests_;  // of anchor and outer momentum, as said last
  std::int32_t averaged_fragment_ = 0;      // of the newest plan
  bool contributed_ = false;                // to it
  std::int32_t adopting_fragment_ = 0;      // of the newest commit
  std::vector<DecayRange> decay_ranges_;
  // With sparse2: what it did not send yet, from the first reduce on, and the encoding that the
  // newest attempt takes, empty when it contributes nothing. Like the inner moments they belong to
  // this replica alone: one that starts from a donor or a checkpoint has sent all it owes.
  std::optional<outer_opt::ErrorFeedback> feedback_;
  std::vector<std::byte> encoded_;
  std::optional<outer_opt::Participant> participant_;
  outer_opt::Actions actions_;
  MaybeFailure device_failure_;  // that was noticed on the way; no further action is performed
  std::unique_ptr<Training> training_;
  RoundKey training_key_;
  std::optional<outer_opt::EagerUpdates> eager_;  // with sync.eager
  double share_ = 0;                              // of this replica in the newest plan
  std::optional<PipelineView> view_;              // that came before the state was here
  Steps held_step_;                               // of the job's schedule, at the round it holds
  bool first_member_ = false;                     // of the newest plan: it samples
  bool sampling_ = false;
  std::string sample_;                   // of the state it holds; empty: none
  std::vector<CheckpointReady> unsaid_;  // while sampling
  // The shards of the newest plan, where they are not those that outer_ has; they become those of
  // outer_ with the commit.
  std::optional<outer_opt::MomentumShards> staged_;
  CutMoments cut_moments_;              // of the state it holds
  std::optional<CutMoments> next_cut_;  // of the boundary that it went on behind
  struct Gathering {
    WriteCheckpointTo command;
    outer_opt::Restaged momentum;
    Status status;  // once the work has ended
  };
  std::unique_ptr<Gathering> gathering_;  // of a checkpoint that waits for its momentum
  Background gatherer_;
  Background background_;  // last: its thread ends before anything it uses
};

}  // namespace shoal::trainer
