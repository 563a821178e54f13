// What a router draws: microbatches of its lease, evenly over the steps of the round; the passes of
// its slice of an evaluation; the passes of a sample. Evaluation and sample want the parameters
// that the held round committed, so they belong to the first step after it, which is not over
// before they are.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "swarm/core/session/round_progress.h"
#include "swarm/core/session/session_types.h"
#include "swarm/core/session/step_barrier.h"
#include "swarm/core/session/step_books.h"
#include "swarm/core/session/tasks.h"

namespace shoal::swarm {

class Draws {
 public:
  // All three are those of the session and outlive this.
  Draws(const SessionOptions& options, StepBooks& books, const StepBarrier& barrier,
        const RoundProgress& progress);

  // ---- inputs
  // Before the barrier: one that trains already draws for the steps that it is behind as well.
  void open(const OpenRound& round);
  void committed(SessionActions& out);
  void evaluate(const RoundKey& key, const EvalSlice& slice, std::int64_t microbatches,
                SessionActions& out);
  void ask(TaskId task);  // a sample's pass
  void sample_over();
  void sample_given_up() { sampling_ = false; }  // its pass was dropped
  // The answer of a task of this router is here.
  void came_back(const Task& task, SessionActions& out);
  // The parameters move on: no evaluation can be ended.
  void void_evaluations(SessionActions& out);
  // Nothing more is drawn of this step, and what waits for it is given up.
  void skip(std::int64_t step, SessionActions& out);
  ReachBoundary boundary();  // what came back since the last one, or since a commit

  // ---- what follows
  struct Draw {
    Microbatch microbatch;
    TaskId asked = 0;  // a sample's pass that waited
  };
  std::optional<Draw> next();
  // Every microbatch of this step was drawn and answered.
  bool done_with(std::int64_t step) const;
  // With this step the router ends, though the round has more.
  bool ends_with(std::int64_t step) const;

 private:
  struct Evaluation {
    RoundKey key;
    EvalSlice slice;
    std::int64_t microbatches = 0;  // per batch
    std::int64_t passes = 0, drawn = 0, answered = 0;
    double loss_sum = 0;
    Tokens tokens;
    bool done = false;
    friend constexpr auto fields_of(Of<Evaluation>) {
      using T = Evaluation;
      return fields<&T::key, &T::slice, &T::microbatches, &T::passes, &T::drawn, &T::answered,
                    &T::loss_sum, &T::tokens, &T::done>();
    }
  };

  bool at_rest() const;  // the parameters are those of the held round
  bool evaluating() const;
  std::int64_t to_draw(std::int64_t step) const;
  std::optional<Microbatch> next_of_evaluation();
  std::optional<Microbatch> next_of_training();
  Microbatch pass(PassKind kind, std::int64_t step, std::int64_t index) const;

  friend FieldAccess;
  friend constexpr auto fields_of(Of<Draws>) {
    using T = Draws;
    return fields(
        field<&T::self_>(), field<&T::microbatch_>(), field<&T::books_>(not_state(kOfSession)),
        field<&T::barrier_>(not_state(kOfSession)), field<&T::progress_>(not_state(kOfSession)),
        field<&T::per_step_>(), field<&T::evaluations_>(), field<&T::asked_>(),
        field<&T::samples_>(), field<&T::sampling_>(), field<&T::answered_>(), field<&T::tokens_>(),
        field<&T::loss_sum_>());
  }

  static constexpr const char* kOfSession = "a part of the session, with a digest of its own";

  ReplicaId self_;
  std::int64_t microbatch_;  // sequences
  StepBooks* const books_;
  const StepBarrier* const barrier_;
  const RoundProgress* const progress_;
  std::int64_t per_step_ = 0;
  std::vector<Evaluation> evaluations_;
  std::vector<TaskId> asked_;
  std::int64_t samples_ = 0;  // passes
  bool sampling_ = false;
  // Since the last boundary.
  std::int64_t answered_ = 0;
  Tokens tokens_;
  double loss_sum_ = 0;
};

}  // namespace shoal::swarm
