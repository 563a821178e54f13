// A copy of the outer state of one stage, in the memory of a host that does not serve the stage:
// what is left when all replicas of the stage are lost at once (checkpoint.buddies). It is loaded
// as a joiner loads (outer_opt/core/joining), follows each commit by its average, and gives itself
// to the replicas that restart the stage. The inner optimizer's moments are not in it: they
// belong to a replica, and one that begins from a copy begins without.
//
//   follow()  a newer round was committed, or other replicas have the state now
//   next(), answered(), failed(), wakeup_at()   as of a JoinSession, for the driver
//   settle()  after each of them: whether the copy has come to the round that it was to hold
//   answer()  what a joiner asks; of the last round that was held, also while the next one comes
//
// It takes twice the state: what is held stays whole until all of the next round is there and has
// the digests that the stage committed.
//
// Pure. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "outer_opt/core/joining/join_session.h"
#include "outer_opt/core/joining/state_source.h"
#include "replica/core/join_target.h"

namespace shoal::replica {

struct CopiedStage {
  ReplicaId copy;  // by which it is asked; no replica has this id
  JobSpec spec;    // whose replicas share one state: whole, and followed by averages
  std::int64_t value_count = 0;
  std::vector<outer_opt::Fragment> fragments;
};

// What the stage committed, and who has it.
struct CopiedRound {
  RoundKey key;
  StateDigests digests;
  std::vector<PeerAddress> sources;
};

enum class CopyState {
  kComing,  // not all of the newest round is here
  kHeld,    // it is, with the digests of the stage
  kFailed,  // no source answers, or it came to other digests
};

class StateCopy {
 public:
  StateCopy(CopiedStage stage, const CopiedRound& first, const outer_opt::JoinOptions& options,
            std::uint64_t seed, Instant now);
  StateCopy(const StateCopy&) = delete;

  // Older rounds are ignored. Another epoch is another copy.
  void follow(const CopiedRound& round, Instant now);

  outer_opt::JoinSession& session() { return *session_; }
  CopyState settle();

  std::optional<RoundKey> held() const { return held_; }
  const Error& error() const { return *error_; }  // kFailed
  outer_opt::StateAnswer answer(const outer_opt::StateAsk& ask, Instant now);

 private:
  const CopiedStage stage_;
  const std::unique_ptr<OuterAlgorithm> algorithm_;
  OuterState coming_;
  outer_opt::MomentsCopy no_moments_;
  OuterStateTarget target_{*algorithm_, coming_, no_moments_};
  std::optional<outer_opt::JoinSession> session_;
  CopiedRound wanted_;
  std::optional<RoundKey> held_;
  outer_opt::StateSource source_;
  std::optional<Error> error_;
};

}  // namespace shoal::replica
