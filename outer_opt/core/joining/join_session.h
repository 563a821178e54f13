// How a joiner comes to the committed state, without I/O, however slow its line is. It takes runs
// of the state from all sources that it has, each at its source's newest round, and lets the runs
// that are here follow the rounds by their averages. With r the share of its line that the averages
// of the rounds take, that lasts (bare transfer) / (1 - r); with r of 1 and more it never ends.
//
//   next()      what to ask now, and which asks to give up: the driver sends and cancels them
//   answered()  an answer that arrived whole (the driver has checked its SHA-256)
//   failed()    an ask that got none
//   kLevel      all runs are at one round, the newest that is known: the driver says so. When the
//               job has moved on meanwhile, aim() names the newer round and the session follows.
//
// What was answered is never asked for again, except runs that fell behind what the sources keep
// of averages. A source that fails is rested, one that sends what cannot be is dropped by name, one
// that is silent loses its asks to the others. The session gives up when no source answers, and at
// once when it is told that there is none.
//
// A round that a source says it holds is believed for JoinOptions::unconfirmed. If neither another
// source nor the coordinator has said it by then, nor averages have led to it, while others answer,
// the source is dropped by name, and what it gave of such rounds is missing again.
//
// What is level may still be another state than it should be: then doubt() finds the runs that
// differ from those of another source and takes them from that one (join_doubt.cc).
//
// Moments are optional: where every source says that it keeps none, the session ends without, and
// adam_step() is 0.
//
// Where a run cannot follow (JoinMode), all runs come from one source, at one round.
//
// Pure. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "outer_opt/core/joining/state_messages.h"
#include "outer_opt/core/round/round.h"

namespace shoal::outer_opt {

enum class JoinMode {
  kFollows,    // runs follow the averages
  kAnyRound,   // groups: the state of one source, of whatever round
  kThisRound,  // the state of one source, of the newest round
};

struct JoinShape {
  JoinMode mode = JoinMode::kFollows;
  std::int64_t values = 0;   // of the stage's vector
  std::int64_t vectors = 2;  // that a run of the state has: anchor, momentum …
  std::int64_t moments = 0;  // values of the inner AdamW's that are wanted, first and second ones
  // Wanted is a copy whose size only its source knows (MomentsCopy::is_open); `moments` is 0.
  bool open_moments = false;
  std::vector<Fragment> fragments;  // of the stage; one: the whole
};

struct JoinOptions {
  std::int64_t run_values = 1 << 15;
  std::int64_t follow_runs = 8;        // neighbors that follow with one ask, at most
  std::size_t asks_max = 64;           // of one source that are on their way
  Duration ahead = milliseconds(200);  // what a source answers in so long is asked in advance
  Duration silent = seconds(30);       // while there are other sources
  Duration silent_alone = seconds(120);
  Duration broken = seconds(30);       // nothing is on its way, and nothing has come for so long
  Duration unconfirmed = seconds(60);  // a round that one source alone says
  Duration retry_first = milliseconds(100), retry_cap = seconds(5);
  // Open moments: 16 GiB of a program's files, with their list.
  std::int64_t open_moments_max = (std::int64_t{16} << 28) + (1 << 20);
  bool stays = false;  // it keeps following: sources keep averages for it however long a round is
};

// Where the values go. Positions are of the stage's vector.
class JoinTarget {
 public:
  virtual ~JoinTarget() = default;
  // The run of each vector, one after the other.
  virtual void place(const ValueRange& run, std::span<const float> values) = 0;
  // The outer step of one round on a run that lies in its fragment; `average` is as long.
  virtual void follow(const StepTerms& terms, const ValueRange& run,
                      std::span<const float> average) = 0;
  virtual void place_moments(std::int64_t first, std::span<const float> values) = 0;
  virtual Digest digest_of(const ValueRange& run) const = 0;  // digest_of_piece() of what is here
};

std::size_t size_of(const StateAnswer& answer);  // in bytes, as it lies in memory

class JoinSession {
 public:
  using AskId = std::uint64_t;
  struct Ask {
    AskId id = 0;
    PeerAddress source;
    StateAsk ask;
  };
  struct Next {
    std::vector<Ask> send;
    std::vector<AskId> cancel;  // nothing more is said about these
  };
  enum class State { kLoading, kLevel, kGivenUp };

  // `wanted`: the round to hold at least. `target` outlives the session.
  JoinSession(const RoundKey& wanted, JoinShape shape, std::vector<PeerAddress> sources,
              JoinTarget& target, const JoinOptions& options, std::uint64_t seed, Instant now);

  Next next(Instant now);
  void answered(AskId id, const StateAnswer& answer, Instant now);
  void failed(AskId id, const Error& error, Instant now);
  // When next() may have more to say though nothing happened.
  std::optional<Instant> wakeup_at(Instant now) const;

  void aim(RoundNumber round);
  // Replaces the known sources. Runs that have arrived stay. None: nobody has the state
  // any more, so a session that is not level gives up at its next next().
  void set_sources(const std::vector<PeerAddress>& sources, Instant now);

  // kLevel, and it is not the state that it should be: somebody gave other bytes. Compares its runs
  // with those of a source that was not asked for that before, takes what differs from that one,
  // and becomes level again. False: nobody is left to compare with.
  bool doubt(Instant now);
  // After kLevel with the expected state: the sources that alone gave wrong runs, as their bytes of
  // the same round now show; they are not used any more.
  std::vector<ReplicaId> found_liars();

  State state() const { return state_; }
  RoundNumber round() const;                             // kLevel: of all runs
  std::int64_t adam_step() const { return adam_step_; }  // of the moments; 0: there are none
  const Error& error() const { return error_; }          // kGivenUp
  // Sources that sent what cannot be, and what that was; for logs. Each is returned once.
  std::vector<std::string> take_complaints() { return std::exchange(complaints_, {}); }
  Bytes done() const, total() const;
  Bytes received() const { return received_; }  // of state and averages, as answers brought them
  // What the averages of one round take for the whole state; 0: none has come yet.
  Bytes per_round() const;
  Bytes fetched_again() const { return fetched_again_; }  // of runs that had been here before

 private:
  struct Run {
    bool here = false, busy = false;
    RoundNumber round = 0;
    bool was_here = false;
    std::uint64_t givers = 0;  // sources of its state and of what it followed by, a bit each
    std::optional<std::size_t> only_from;  // what differed is taken from who was compared with
    RoundNumber fetched_round = -1;        // in doubt: of what replaced it, and that
    Digest fetched;                        // likewise; of moments: always
    bool is_beyond = false;                // of open moments: the copy ends before it
  };
  // A run that differed from what another source has, and who alone gave it.
  struct Suspicion {
    std::size_t run = 0, giver = 0;
    RoundNumber round = 0;
    Digest bytes;
  };
  struct Source {
    PeerAddress is;
    Backoff backoff;
    Instant rests_until, heard_at;
    bool bad = false, left = false;  // sent what cannot be; is none of the sources any more
    bool compared = false;           // with its runs, by doubt()
    bool without_moments = false;    // it keeps none: a copy of the outer state
    std::int64_t gone_to = -1;       // averages after this round and older ones are not there
    int silences = 0;
    RoundNumber said = -1;  // that it holds, at most
    std::size_t in_flight = 0, window = 1;
    double rate = 0;  // bytes per second
    Bytes measured;
    Instant measured_from;
    Duration fastest{-1};
  };
  struct Pending {
    std::size_t source = 0;
    StateAsk ask;
    Instant asked_at;
    std::size_t first = 0, count = 0;  // runs, or of the moments
    int epoch = 0;
  };

  bool usable(const Source& source, Instant now) const;
  bool has_others(std::size_t source, Instant now) const;
  int& epoch_of(AskKind kind) { return kind == AskKind::kMoments ? moments_epoch_ : state_epoch_; }
  std::optional<Pending> choose(std::size_t source);
  void send(Pending pending, Instant now, Next& next);
  std::optional<Pending> ask_for_news(Instant now);
  std::optional<Pending> follow_some(std::size_t source);
  Pending follow_from(std::size_t source, std::size_t first, std::size_t count);
  std::optional<Pending> fetch_one(std::size_t source);
  std::optional<Pending> fetch_moments(std::size_t source);
  std::optional<Pending> compare_some(std::size_t source);
  bool is_comparing() const { return witness_ && compared_ < runs_.size(); }
  std::optional<std::size_t> next_witness(Instant now) const;
  void take_digests(const Pending& pending, const StateAnswer& answer);
  void suspect(std::size_t run);
  void forget_witness();
  bool anybody_follows(RoundNumber round) const;
  void forget_stranded();
  void forget_unconfirmed(Instant now);
  void take_state(const Pending& pending, const StateAnswer& answer);
  void take_averages(const Pending& pending, const StateAnswer& answer);
  bool follow_round(const Pending& pending, const AverageSlice& slice);
  void follow(const StepTerms& terms, const ValueRange& run, std::span<const float> average);
  void take_moments(const Pending& pending, const StateAnswer& answer);
  void refuse(const Pending& pending, const StateAnswer& answer, Instant now);
  void release(const Pending& pending);
  void complain(std::size_t source, const std::string& what);
  void leave_alone(std::size_t source);
  void begin_anew();
  void extend_moments();
  void check_moments(std::size_t source);
  void forget_moments();
  void go_without_moments();
  void measure(Source& source, Instant asked_at, std::size_t bytes, Instant now);
  void settle(Instant now);
  void be_level();
  std::vector<AskId> overdue(Instant now);
  ValueRange range_of(std::size_t first, std::size_t count) const;
  const Fragment& fragment(std::int32_t number) const;

  RoundKey key_;
  JoinShape shape_;
  JoinOptions options_;
  JoinTarget& target_;
  Prng prng_;
  Fragment whole_;
  std::vector<Run> runs_, moments_;
  std::vector<Source> sources_;
  std::map<AskId, Pending> pending_;
  AskId next_id_ = 1;
  RoundNumber newest_ = 0, aimed_ = 0;  // that anybody said; that the coordinator did
  RoundNumber followed_ = -1;           // that a run came to by averages
  RoundNumber pinned_round_ = -1;       // where runs do not follow: of the state that is fetched
  std::optional<std::size_t> only_;     // and the one source of that state
  std::optional<std::size_t> moments_from_;
  std::int64_t adam_step_ = 0;
  std::optional<Digest> moments_digest_;     // of the whole copy, as its source says
  int state_epoch_ = 0, moments_epoch_ = 0;  // of what is fetched since the last new beginning
  std::optional<std::size_t> witness_;  // in doubt: whose runs are compared, the first compared_
  std::size_t compared_ = 0;
  std::vector<Suspicion> suspicions_;
  Instant moved_at_, confirmed_at_;  // anything was heard; newest_ was no claim of one alone
  Bytes fetched_again_, received_;
  double average_bytes_ = 0, averaged_values_ = 0;  // of the rounds that runs have followed
  State state_ = State::kLoading;
  Error error_, last_error_;
  std::vector<std::string> complaints_;
};

}  // namespace shoal::outer_opt
