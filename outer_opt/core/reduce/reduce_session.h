// One attempt of a reduce at one member, without I/O: what the sessions of all topologies are to
// their driver, and what they share. make_session() (make_session.h) makes the one that a plan
// names.
//
// Streams: dials(a, b) says that a opens a stream to b. Contributions go along it, averages come
// back. Nothing is queued: the driver pulls frames to send when a stream can take one, and offers a
// received frame until it is admitted, which is its back-pressure on the stream. Work on tensors is
// separate from the decisions: a session's admit(), local_work(), finish() and the rest are to be
// serialized by the driver (one lock); run() and encode() take no part in that and may run in
// parallel for different works.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "outer_opt/core/codec/frame.h"
#include "outer_opt/core/reduce/average_encoder.h"
#include "outer_opt/core/reduce/vector_source.h"
#include "outer_opt/core/round/plan_refusal.h"
#include "outer_opt/core/round/round.h"

namespace shoal::outer_opt {

enum class SessionState { kRunning, kDone, kBroken };

// What a member puts in, nothing with a weight of 0: its pseudo-gradient, or with sparse2 the
// encoding of it (ErrorFeedback::encode).
struct ReduceInput {
  VectorSource pseudo_gradient;
  std::span<const std::byte> encoded;
  std::span<const float> momentum = {};  // of the own part, where the plan has an owner step
  // In a group: what a clipped member's vector is pulled towards in the own part, as long as the
  // vector (groups.h). Else empty: its vector is scaled.
  std::span<const float> clip_center = {};
};

// An outgoing frame; valid until the session ends.
struct FrameRef {
  FrameKind kind = FrameKind::kContribution;
  int peer = 0;  // index of the receiver in the plan's members
  int part = 0;
  std::int64_t chunk = 0, first = 0, count = 0;
};

// A piece of arithmetic on one chunk, fixed by admit() or local_work(). Opaque to the driver.
struct Work {
  struct Term {
    int member = 0;
    float factor = 0;
  };
  FrameKind kind = FrameKind::kContribution;
  int peer = -1;  // whose frame it needs; -1: none
  std::optional<FrameHeader> header;
  int part = 0;
  std::int64_t chunk = 0, first = 0, count = 0;
  std::array<Term, 2> terms;  // butterfly: contributions to add, in order
  int term_count = 0;
  bool fresh = false;  // nothing was added to this chunk before
  bool last = false;   // the sum is complete: divide, encode, decode
  float inverse = 0;   // 1 / sum of the weights, with `last`
  float clipped = 0;   // what clip factors took of that sum, with `last`
};

struct WorkResult {
  Status status;
  // For an averaged chunk that is now complete: checksums of its values and of the payload that
  // carries it.
  std::uint64_t values_checksum = 0, payload_checksum = 0;
  // For contributions: per term of the work, in order, the sum of squares of its decoded values.
  std::array<double, 2> squares{};
};

struct SessionFailure {
  ReduceFailure failure = ReduceFailure::kInternal;
  int peer = -1;  // index of the member that was the cause, -1: none
  std::string detail;
};

class ReduceSession {
 public:
  virtual ~ReduceSession() = default;
  ReduceSession(const ReduceSession&) = delete;
  ReduceSession& operator=(const ReduceSession&) = delete;

  int self() const { return self_; }
  int members() const { return static_cast<int>(plan_.members.size()); }
  const ReducePlan& plan() const { return plan_; }
  virtual bool dials(int from, int to) const = 0;
  // The attempt continues without `peer`, whatever it had not sent.
  virtual bool tolerates_loss(int peer) const = 0;

  // ---- sending ----
  // The next frame for `peer`, if there is one now; it counts as sent.
  std::optional<FrameRef> next_frame(int peer, FrameKind kind);
  // True when next_frame(peer, kind) will never again return one.
  virtual bool sent_all(int peer, FrameKind kind) const = 0;
  // The payload where it lies already, or empty: then encode() it. Both may run in parallel.
  virtual std::span<const std::byte> resident(const FrameRef& frame) const = 0;
  std::size_t payload_size(const FrameRef& frame) const;
  virtual void encode(const FrameRef& frame, std::span<std::byte> out) const;
  // `by_reference`: the payload stays where it is (frame.h, FrameReference).
  FrameHeader header(const FrameRef& frame, std::span<const std::byte> payload,
                     bool by_reference = false) const;

  // ---- receiving ----
  // That the peer owes us and we have not admitted yet.
  virtual std::int64_t frames_left(int peer, FrameKind kind) const = 0;
  bool received_all(int peer, FrameKind kind) const { return frames_left(peer, kind) == 0; }
  // The live member that is furthest behind with what it owes us, else with what it has not taken
  // from us; -1: nobody is behind.
  virtual int slowest() const = 0;
  // nullopt: not now, offer it again after the next finish(). An error breaks the session.
  std::optional<Work> admit(int peer, const FrameHeader& header);
  // Arithmetic that needs no frame. To be asked at the start, after finish() and after peer_lost().
  std::optional<Work> local_work();
  virtual WorkResult run(const Work& work, Pieces payload) = 0;
  void finish(const Work& work, const WorkResult& result);

  // ---- ends ----
  void peer_lost(int peer, const std::string& detail);
  void fail(SessionFailure failure);  // the first failure counts
  // Done: everything averaged is here, and all frames for live peers are taken.
  SessionState state() const;
  const SessionFailure& failure() const;  // requires kBroken
  // Over the checksums of all averaged chunks in order; equal on two members exactly when the
  // averages are (up to collisions), provided that they use the same frame_values. Requires kDone.
  Digest digest() const;
  // Members with a weight that were lost before all they owed to the own part was here: the average
  // is made without what was missing. Never one that has all averages itself, because a lost member
  // is sent none. Requires kDone.
  std::vector<ReplicaId> excluded() const;
  // What this member votes of the others. Requires kDone.
  PartSeen seen() const { return {excluded(), squares(), {}}; }

 protected:
  // check_plan_members() must hold.
  ReduceSession(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                std::span<float> average);

  bool contributes(int member) const { return plan_.members[member].weight > 0; }
  bool is_reducer(int member) const { return plan_.members[member].reducer; }
  bool lost(int peer) const { return lost_[peer]; }
  std::span<float> values(std::int64_t first, std::int64_t count) const;
  // Puts an averaged chunk in its place.
  Status decode_average(const Work& work, Pieces payload, WorkResult& result) const;
  // What `encoder` found when the whole chunk went through it.
  static Status encoded(const AverageEncoder& encoder, WorkResult& result);

  // What a topology decides. The session is unbroken and the peer live in all of them.
  virtual std::optional<FrameRef> pull(int peer, FrameKind kind) = 0;       // !sent_all(peer, kind)
  virtual std::optional<FrameRef> due(int peer, FrameKind kind) const = 0;  // !received_all(…)
  virtual std::optional<Work> take(int peer, const FrameRef& frame) = 0;    // the due frame is here
  virtual std::optional<Work> take_local() = 0;
  virtual void settle(const Work& work, const WorkResult& result) = 0;  // it went well
  virtual void forget(int) {}                                           // a peer was lost just now
  virtual bool complete() const = 0;  // everything averaged is here
  // PartSeen::squares; sums in double, in the order of the values.
  virtual std::vector<double> squares() const { return {}; }
  // The checksum of a resident payload, if it is known without reading it again.
  virtual std::optional<std::uint64_t> known_checksum(const FrameRef&) const { return {}; }

  const ReducePlan plan_;
  const int self_;
  const std::int64_t frame_values_;
  std::span<float> average_;              // or of the own part only
  std::int64_t origin_;                   // the value that average_ begins with
  const std::vector<double> share_;       // weight / largest weight, per member
  std::vector<std::uint64_t> checksums_;  // of the values of each averaged chunk, parts in order

 private:
  std::vector<bool> lost_;
  std::optional<SessionFailure> failure_;
};

// Lengths that agree (a reducer has room for its part, all others for the vector), weights and clip
// factors in their ranges, `self` a member exactly once.
Status check_plan_members(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                          std::size_t average_count);

// For topologies that sum: a dense codec, parts without gaps, a pseudo-gradient of the right length
// from every member with a weight.
Status check_dense_plan(const ReducePlan& plan, ReplicaId self, const ReduceInput& input);

bool all_finite(std::span<const float> values);

// The member of a plan that check_plan_members() accepted.
int index_of(const ReducePlan& plan, ReplicaId self);

// For a part that is cut into frames.
std::int64_t chunks_of(const ReduceMember& owner, std::int64_t frame_values);
FrameRef frame_of_part(const ReducePlan& plan, std::int64_t frame_values, FrameKind kind, int peer,
                       int part, std::int64_t chunk);

}  // namespace shoal::outer_opt
