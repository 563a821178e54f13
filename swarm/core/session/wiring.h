// Which replica of the next stage gets a microbatch: interleaved weighted round robin (Ryabinin et
// al. 2023, appendix C). Every replica has a virtual time; the smallest one is chosen and pays its
// work times the service time that the *server* reported. The response time would contain the queue
// and oscillates (docs/simulation.md). Credits bound what is in flight per replica: without a
// credit a replica is not in the heap. The seed breaks ties. One object per sender and next stage;
// not thread-safe; a decision is O(log n).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/fields.h"
#include "base/flat_map.h"
#include "base/ids.h"
#include "base/prng.h"
#include "base/time.h"

namespace shoal::swarm {

inline constexpr double kServiceEma = 0.2;  // weight of a new measurement
inline constexpr std::int32_t kCreditsMin = 2;
inline constexpr std::int32_t kCreditsMax = 16;  // of credits_for()

// Credits that keep a replica busy over its round trip: 2 + (round trip + two transfers) / service,
// within [kCreditsMin, kCreditsMax]. So few that they may decide instead of the weights.
std::int32_t credits_for(Duration service, Duration round_trip, Duration transfer);

// Credits that never decide: twice the part of the window that one of `senders` has with a replica
// that does `share` of its stage's work, at least kCreditsMin.
std::int32_t ample_credits(double window, std::int32_t senders, double share);

class Wiring {
 public:
  explicit Wiring(std::uint64_t seed);

  // `service_per_work`: from the benchmark at joining; zero: the mean of the others until measured.
  // Starts at the smallest virtual time, so it is tried at once and not flooded. The id must be
  // new.
  void add(ReplicaId id, Duration service_per_work, std::int32_t credits);
  void remove(ReplicaId id);  // left the view; unknown ids are ignored here and below
  void ban(ReplicaId id);     // suspected: nothing new until unban
  void unban(ReplicaId id);
  void set_credits(ReplicaId id, std::int32_t credits);
  // Replaces the estimate, e.g. when the first measurements say what a benchmark's figure means.
  void expect(ReplicaId id, Duration service_per_work);

  // Takes a credit. `work` is what the replica will do for the microbatch on this path, forward and
  // backward, in any unit that stays the same. Nothing: all are banned or without credit; wait.
  std::optional<ReplicaId> choose(double work);
  // The server finished `work` and says how long it computed.
  void report(ReplicaId id, Duration service, double work);
  void give_back(ReplicaId id);  // the credit of one choose()

  std::size_t size() const { return slots_.size(); }
  std::size_t eligible() const { return heap_.size(); }
  // As estimated now; zero for an unknown id.
  Duration service_per_work(ReplicaId id) const;

 private:
  struct Slot {
    ReplicaId id;
    double virtual_time = 0;  // seconds
    double service = 0;       // seconds per work; 0: not known
    std::uint64_t tie = 0;
    std::int32_t credits = 0, in_flight = 0;
    std::int32_t heap_at = -1;
    bool banned = false;
    friend constexpr auto fields_of(Of<Slot>) {
      using T = Slot;
      return fields<&T::id, &T::virtual_time, &T::service, &T::tie, &T::credits, &T::in_flight,
                    &T::heap_at, &T::banned>();
    }
  };

  Slot* find(ReplicaId id);
  bool before(std::int32_t a, std::int32_t b) const;
  void place(std::size_t at, std::int32_t slot);
  void sift_up(std::size_t at);
  void sift_down(std::size_t at);
  void heap_insert(std::int32_t slot);
  void heap_erase(std::int32_t slot);
  void refresh(Slot& slot);  // in the heap exactly when it may be chosen
  double estimate(const Slot& slot) const;

  friend FieldAccess;
  friend constexpr auto fields_of(Of<Wiring>) {
    using T = Wiring;
    return fields<&T::prng_, &T::index_, &T::slots_, &T::heap_, &T::floor_, &T::known_sum_,
                  &T::known_>();
  }

  Prng prng_;
  FlatMap<ReplicaId, std::int32_t> index_;
  std::vector<Slot> slots_;
  std::vector<std::int32_t> heap_;  // slots, smallest virtual time first
  double floor_ = 0;                // virtual time of the last choice
  double known_sum_ = 0;
  std::int32_t known_ = 0;
};

}  // namespace shoal::swarm
