// What a replica that serves gives to joiners: runs of the state of the round it holds, and the
// averages of later rounds. It begins to keep averages when the first joiner asks and forgets them
// when nobody has asked for a while, or, of one that stays, for some rounds; they never take more
// memory than the state itself.
//
// Where replicas have anchors of their own, or nothing that a run could follow by, a joiner takes
// one state of one source: that is kept as it was (pinned) while the joiner keeps asking.
//
// Pure. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "outer_opt/core/joining/average_log.h"

namespace shoal::outer_opt {

// The committed state of a round: the anchor, then what the outer step keeps beside it, all equally
// long; `owner` keeps them as they are.
struct HeldState {
  RoundKey key;
  std::vector<std::span<const float>> vectors;
  std::shared_ptr<const void> owner;
};

// A copy of the inner AdamW's moments.
struct MomentsCopy {
  std::vector<float> first, second;
  std::int64_t step = 0;
  bool is_open = false;  // joiners do not know its size: they ask until an answer is shorter
};

class StateSource {
 public:
  // The newest committed state of `replica`; that of another replica or epoch replaces everything.
  void publish(ReplicaId replica, HeldState state);
  void withdraw();
  // The outer step begins: the vectors are released, and nothing is answered until publish().
  void begin_step();
  // All joiners share one copy, made again when nobody has used it for a while.
  void provide_moments(std::shared_ptr<const MomentsCopy> moments, Instant now);

  // This is a copy of the outer state: asks for moments are refused for good (kNever).
  void keep_no_moments() { without_moments_ = true; }

  std::shared_ptr<const MomentsCopy> moments() const { return moments_; }
  // Whether provide_moments() is what an ask for them waits for.
  bool lacks_moments() const { return held_ && !stepping_ && !moments_; }

  // Whether an average that is committed now is worth being added.
  bool keeps_averages(Instant now) const;
  // To be filled before publish() of the same round, whenever keeps_averages().
  AverageLog& averages() { return *averages_; }

  // nullopt: not before publish(), or, of moments, before provide_moments().
  std::optional<StateAnswer> answer(const StateAsk& ask, Instant now);

 private:
  struct Pin {
    HeldState state;
    Instant used_at;
  };

  StateAnswer give_run(const StateAsk& ask, Instant now);
  StateAnswer give_averages(const StateAsk& ask) const;
  StateAnswer give_digests(const StateAsk& ask) const;
  std::optional<StateAnswer> give_moments(const StateAsk& ask, Instant now);
  void give_digest_of_moments(const StateAsk& ask, StateAnswer& answer);
  const HeldState* pinned(const StateAsk& ask, Instant now);

  ReplicaId replica_;
  std::optional<HeldState> held_;
  bool stepping_ = false;
  bool without_moments_ = false;
  std::optional<AverageLog> averages_;
  Instant wanted_at_{-1};         // when a joiner asked last; negative: never
  RoundNumber followed_at_ = -1;  // what was held when one asked that stays; negative: none did
  std::vector<Pin> pins_;
  std::shared_ptr<const MomentsCopy> moments_;
  Instant moments_used_at_;
  // Digests of that copy, in the pieces of the first request: computed once for all requests.
  struct MomentsDigest {
    std::int64_t piece;
    Digest digest;
  };
  std::optional<MomentsDigest> moments_digest_;
};

}  // namespace shoal::outer_opt
