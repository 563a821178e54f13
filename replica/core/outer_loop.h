// What a replica does with its weights between two boundaries: the outer loop of DiLoCo and its
// relatives, as one machine that the trainer, the simulator and the studies drive. It holds the
// outer state, the contribution and the average of the round under way; what differs by algorithm
// is behind OuterAlgorithm, where the vectors lie behind OuterVectors and LocalParameters. Which
// round it is and what the coordinator is told decides the Participant
// (outer_opt/core/participant); inner steps, transfers and threads are the driver's.
//
//   open()      more is to be trained: an eager step is taken back
//   boundary()  takes the contribution; with sync.eager and steps behind the boundary, the estimate
//   plan()      an attempt of the reduce begins; then the driver reduces input() into room(), or
//               writes an average of its own into average()
//   read_base() meanwhile, where the driver has nothing to train
//   commit()    the outer step; what was trained counts, stays or is dropped
//   adopt()     behind the boundary, where the result becomes local later
//
// Local parameters are touched by inner steps, commit(), adopt() and, with sync.eager, boundary()
// and open(); so an abort needs no undoing but open()'s. A commit changes the fragment that was
// averaged, or everything where this replica had no part in it. With async, one that had not
// reported moves with the anchor: its pseudo-gradient stays what it was. In a group the anchor is
// the replica's own, and a commit without an average changes nothing of it.
//
// One thread at a time; while a reduce runs, input(), room(), average(), missing_momentum(),
// stage() and own_momentum() belong to the thread that reduces, and nothing else is called but
// read_base().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "job/job_spec.h"
#include "outer_opt/core/codec/sparse2.h"
#include "outer_opt/core/joining/average_log.h"
#include "outer_opt/core/participant/step_cursor.h"
#include "outer_opt/core/reduce/reduce_session.h"
#include "outer_opt/core/round/round.h"
#include "outer_opt/core/step/eager.h"
#include "replica/core/outer_algorithm.h"
#include "replica/core/outer_vectors.h"

namespace shoal::replica {

struct OuterLoopSetup {
  ReplicaId self;
  JobSpec spec;                                // derived fields are filled
  std::vector<outer_opt::Fragment> fragments;  // cut_fragments() of this stage
  std::unique_ptr<OuterAlgorithm> algorithm;   // make_outer_algorithm()
  std::unique_ptr<OuterVectors> vectors;
};

class OuterLoop {
 public:
  // Holds `state`, the committed one of round `held`; the local parameters are its anchor.
  // `local` outlives the loop.
  OuterLoop(OuterLoopSetup setup, LocalParameters& local, std::shared_ptr<OuterState> state,
            const RoundKey& held);
  virtual ~OuterLoop() = default;

  const RoundKey& held() const { return held_; }
  const OuterState& state() const { return *state_; }
  // For readers while the loop continues: the next commit() does not change it.
  std::shared_ptr<const OuterState> shared_state() const { return state_; }
  // As they were when the state came to be; and whether memory still holds that.
  const StateDigests& digests() const { return digests_; }
  bool memory_is_intact() const;
  const std::vector<outer_opt::Fragment>& fragments() const { return fragments_; }
  // Number 0 is the whole vector.
  const outer_opt::Fragment& values_of(std::int32_t fragment) const;
  std::int32_t averaged_fragment() const { return averaged_fragment_; }  // of the newest plan
  bool contributed() const { return contributed_; }                      // to it
  // The first failure of a device; nothing else is worth calling then.
  const Status& status() const { return status_; }

  void open(const OpenRound& round);

  // Fills norm, max_abs, nonfinite and sent_norm of the report and adds the tokens that earlier
  // rounds left behind its fragment. `goes_on`: training continues behind this boundary.
  void boundary(RoundReport& report, bool goes_on);
  std::span<const float> contribution() const;  // empty where it is read: contribution_source()
  outer_opt::VectorSource contribution_source() const;

  struct Attempt {
    std::string mismatch;         // why this replica cannot take part; empty: it can
    std::optional<Digest> alone;  // of the average, when no peer is needed
  };
  Attempt plan(const ReducePlan& plan, bool contributes);
  Result<std::optional<outer_opt::Restaged>> missing_momentum(const ReducePlan& plan);
  void stage(outer_opt::MomentumShards shards) { algorithm_->stage(std::move(shards)); }
  std::span<const float> own_momentum(const ReducePlan& plan) const;
  // With sparse2 the boundary has encoded it: after an aborted round again, with the old residual
  // and a contribution that has grown. Valid until the next call of a method that is not const.
  outer_opt::ReduceInput input(const ReducePlan& plan, bool contributes);
  // Where a session puts the average; or as values, who makes it otherwise.
  outer_opt::AverageRoom room(const ReducePlan& plan, std::int64_t frame_values);
  std::span<float> average(const ReducePlan& plan);
  OuterVectors& vectors() { return *vectors_; }
  // The reduce is done, its average is there.
  void reduced();
  // Takes the digests of what the step will begin with, beside a reduce that waits for its lines:
  // commit() then need not read the whole state for them. They are of this attempt only.
  void read_base();

  // Whether memory still holds what this replica contributed to the audited frames; before
  // audit_input(). If not, it is to be given up: the audit would blame others.
  bool contribution_is_intact(const ReducePlan& audit) const;
  // An audit of the average that is there (outer_opt/core/round/audit.h): reduced apart from it, of
  // audit_input() into audit_average(); then the owners whose frames differ. The average stays.
  outer_opt::ReduceInput audit_input(const ReducePlan& plan, bool contributes);
  std::span<float> audit_average() { return audit_.again; }
  std::vector<ReplicaId> disputed(const ReducePlan& plan) const;

  struct Committed {
    Applied applied;
    outer_opt::CommitOutcome outcome = outer_opt::CommitOutcome::kCounted;
    bool adopts_later = false;  // the driver calls adopt()
  };
  // `goes_on`: training has continued behind the boundary of this round.
  Committed commit(const CommitRound& commit, bool goes_on);
  void adopt();

  // What a commit made of the average, for joiners that follow: called in the middle of commit(),
  // when the step is taken and the average still lies there. On a device it is brought to the host
  // for that, so `wanted` is asked before.
  struct Averaged {
    outer_opt::StepTerms terms;
    const outer_opt::Fragment& fragment;
    CodecKind codec;
    const outer_opt::OwnedRuns& owned;  // of the plan
    const outer_opt::ReadAverage& average;
  };
  struct AverageWatch {
    std::function<bool()> wanted;
    std::function<void(const Averaged&)> averaged;
  };
  void watch_averages(AverageWatch watch) { watch_ = std::move(watch); }

  // At a boundary whose contribution is not finite: the local parameters are the anchor's again,
  // and the contribution, which has no weight, stays as it is.
  void drop_training();

  // Local parameters are the anchor's again, and nothing that was trained, reported or averaged
  // since counts.
  void return_to_anchor(const RoundKey& held);

  // Where nobody holds all of the outer momentum: the ranges that a checkpoint needs.
  bool gathers_momentum() const { return algorithm_->gathers_momentum(); }
  Result<outer_opt::Restaged> all_momentum(const std::vector<MomentumHolder>& holders) const;

 protected:
  // What planted bugs change (tests/negative).
  virtual double share_in(const ReducePlan& plan) const;
  virtual void take_step(const outer_opt::StepTerms& terms);
  virtual void move_with_anchor();
  virtual void take_back(std::span<float> local);
  virtual void correct(std::span<float> local);
  virtual void stay(bool counts);
  virtual void keep_unsent();

  LocalParameters& local() { return local_; }
  OuterState& mutable_state() { return *state_; }
  outer_opt::EagerUpdates& eager() { return *eager_; }
  OuterAlgorithm& algorithm() { return *algorithm_; }

 private:
  std::string mismatch_of(const ReducePlan& plan, bool contributes) const;
  Applied before_step(const CommitRound& commit);
  void adopt_average(const CommitRound& commit, outer_opt::CommitOutcome outcome, bool goes_on);
  outer_opt::StepTerms terms_of(const CommitRound& commit);
  void show_average(const outer_opt::StepTerms& terms);
  void learn_average(const CommitRound& commit);
  void settle_local(outer_opt::CommitOutcome outcome, bool goes_on);
  void adopt_fragment(double blend);
  bool contribution_stands(bool goes_on) const;
  double encode_contribution();
  void count_tokens_behind();
  void begin_eager();
  template <typename Change>
  void change_local(const Change& change);
  void note(const Status& status);
  std::size_t averaged_values() const;

  struct Audit {  // the audited values, one after another
    std::vector<float> contribution, before, again;
  };

  ReplicaId self_;
  JobSpec spec_;
  std::vector<outer_opt::Fragment> fragments_;
  outer_opt::Fragment whole_;
  std::unique_ptr<OuterAlgorithm> algorithm_;
  std::unique_ptr<OuterVectors> vectors_;
  LocalParameters& local_;
  std::shared_ptr<OuterState> state_;
  RoundKey held_;
  StateDigests digests_;

  std::int32_t own_fragment_ = 0;       // of the contribution
  std::int32_t averaged_fragment_ = 0;  // of the newest plan
  std::int32_t adopting_fragment_ = 0;  // of the newest commit
  bool contributed_ = false;
  bool reentered_ = false;  // what the contribution was is not there any more: a group's input is
  double share_ = 0;        // of this replica in the newest plan
  Digest reduced_;          // of the average when its reduce was done
  std::optional<StateDigests> base_;  // of the state, read while the newest attempt was reduced
  CodecKind averaged_codec_ = CodecKind::kFp32;  // as the next, of the newest plan
  outer_opt::OwnedRuns averaged_owned_;
  AverageWatch watch_;
  std::vector<Tokens> tokens_behind_;  // by fragment: reported since it was last averaged
  Tokens tokens_reported_;             // trained for the newest report
  std::optional<outer_opt::EagerUpdates> eager_;
  // With sparse2: what was not sent yet, from the first boundary on, the encoding of the
  // contribution, and that which the newest attempt takes, empty when it contributes nothing. Like
  // the inner moments they belong to this replica alone: one that starts from a source or a
  // checkpoint has sent all it owes.
  std::optional<outer_opt::ErrorFeedback> feedback_;
  std::vector<std::byte> at_boundary_, encoded_;
  Audit audit_;
  Status status_;
};

}  // namespace shoal::replica
