// What a joiner asks a source and what that answers: runs of the outer state at the source's newest
// round, and the averages of later rounds, so that a run that is here already can follow. A source
// is a replica that serves; both ends know the length of the vector from the job.
//
// Positions count values of the stage's vector; `packed` ones count within a fragment
// (step/fragments.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/digest.h"
#include "base/enumerators.h"
#include "base/ids.h"
#include "outer_opt/core/codec/exact_encoding.h"
#include "outer_opt/core/round/round_parts.h"
#include "outer_opt/core/step/fragments.h"
#include "outer_opt/core/step/outer_optimizer.h"

namespace shoal::outer_opt {

enum class AskKind {
  kState,     // a run of anchor and what the step keeps beside it
  kAverages,  // of the rounds after key.round, as many as fit
  kMoments,   // of the inner AdamW, first and then second ones
  kDigests,   // of the pieces of a run, of the state of key.round and no other
};

struct StateAsk {
  ReplicaId replica;  // whose state
  RoundKey key;       // kAverages: the round that the run is at; else any of the epoch
  AskKind kind = AskKind::kState;
  ValueRange run;
  // kState: the state must be that of key.round, which the source has pinned for this joiner; a
  // negative round pins the newest one.
  bool pinned = false;
  std::int64_t adam_step = 0;  // kMoments: of the copy that was begun with; 0: of any
  // kDigests: values of one; the last one may be shorter. kMoments: of the pieces that the digest
  // of the copy is made of; 0: none is wanted.
  std::int64_t piece = 0;
  bool stays = false;  // who asks follows every round from now on
  bool operator==(const StateAsk&) const = default;
};

enum class StateRefusal {
  kNone,
  kNotHere,  // another replica, another epoch or no state yet
  kGone,     // what was asked for is not kept any more: the run must be fetched again
  kNotYet,   // nothing newer than key.round is known here
  kNever,    // kMoments: this source has a copy of the outer state only
};
constexpr auto enumerators_of(Of<StateRefusal>) {
  using enum StateRefusal;
  return enumerators<StateRefusal>({{kNone, "none"},
                                    {kNotHere, "not_here"},
                                    {kGone, "gone"},
                                    {kNotYet, "not_yet"},
                                    {kNever, "never"}});
}

// Neighbors in a packed fragment.
struct AverageSegment {
  std::int64_t first = 0, count = 0;
  ExactEncoding values;
};

// What one outer step changes of a run.
struct AverageSlice {
  StepTerms terms;
  bool is_empty = false;  // nothing, of no run
  CodecKind codec = CodecKind::kFp32;
  std::vector<AverageSegment> segments;  // in order; they cover what the fragment has of the run
};

struct StateAnswer {
  StateRefusal refusal = StateRefusal::kNone;
  RoundNumber held = 0;              // the newest round of the source; of kState without `pinned`
                                     // also that of the run
  std::vector<float> values;         // kState: each vector's run, one after the other; kMoments
  std::vector<AverageSlice> rounds;  // kAverages: key.round + 1 and on, without a gap
  std::int64_t adam_step = 0;        // kMoments
  // kDigests: of each piece, in order. kMoments: one, of the whole copy, in each answer; none where
  // another joiner began with other pieces.
  std::vector<Digest> digests;
};

inline constexpr std::int64_t kPiecesMax = 64;  // of one ask for digests

// What a copy of moments is known by: the digests of its pieces, in order.
Digest digest_of_moments(std::span<const Digest> pieces);

// What one piece of a state is known by: the run of each vector, one after the other.
Digest digest_of_piece(std::span<const std::span<const float>> vectors, const ValueRange& piece);

}  // namespace shoal::outer_opt
