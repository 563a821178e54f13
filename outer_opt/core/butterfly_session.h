// One attempt of a butterfly all-reduce at one member, without I/O. Each member owns a part of the
// vector (round.h); it receives everybody's contribution to its part, averages them and sends the
// average back:
//
//   average = sum_i(w_i * clip_i * x_i) / sum_i(w_i)     over the members i that took part
//
// The same bits everywhere, whatever arrives first: the owner adds in the order of the plan's
// members, in fp32 with one rounding per operation (weights are taken relative to the largest, so
// equal ones are exactly 1), encodes each averaged chunk once, and everybody, the owner too,
// decodes the same bytes. Its own contribution and the sum are never encoded.
//
// The words between it and its driver are in reduce_session.h. The contributions are summed in
// place in `average`; beside that a session holds the encoding of its own averaged part (not with
// fp32).
//
// A lost member that owns no part is left out of the chunks it had not delivered. A lost owner
// breaks the attempt unless everything it owed us has arrived.
#pragma once

#include <optional>
#include <vector>

#include "outer_opt/core/reduce_session.h"

namespace shoal::outer_opt {

class ButterflySession {
 public:
  // What is wrong with taking part as `self`; kValidation with the name of the field.
  static Status check(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                      std::size_t pseudo_gradient_count, std::size_t average_count);

  // check() must hold. The spans outlive the session.
  ButterflySession(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                   std::span<const float> pseudo_gradient, std::span<float> average);

  int self() const { return self_; }
  int members() const { return static_cast<int>(plan_.members.size()); }
  const ReducePlan& plan() const { return plan_; }
  bool owns(int member) const { return plan_.members[member].part_count > 0; }

  // ---- sending ----
  // The next frame for `peer`, if there is one now; it counts as sent.
  std::optional<FrameRef> next_frame(int peer, FrameKind kind);
  // True when next_frame(peer, kind) will never again return one.
  bool sent_all(int peer, FrameKind kind) const;
  // The payload where it lies already, or empty: then encode() it. Both may run in parallel.
  std::span<const std::byte> resident(const FrameRef& frame) const;
  std::size_t payload_size(const FrameRef& frame) const;
  void encode(const FrameRef& frame, std::span<std::byte> out) const;
  FrameHeader header(const FrameRef& frame, std::span<const std::byte> payload) const;

  // ---- receiving ----
  bool received_all(int peer, FrameKind kind) const;
  // The live member that is furthest behind with what it owes us, else with what it has not taken
  // from us; -1: nobody is behind.
  int slowest() const;
  // nullopt: not now, offer it again after the next finish(). An error breaks the session.
  std::optional<Work> admit(int peer, const FrameHeader& header);
  // Arithmetic that needs no frame. To be asked at the start, after finish() and after peer_lost().
  std::optional<Work> local_work();
  WorkResult run(const Work& work, Pieces payload);
  void finish(const Work& work, const WorkResult& result);

  // ---- ends ----
  void peer_lost(int peer, const std::string& detail);
  void fail(SessionFailure failure);  // the first failure counts
  // Done: own part averaged, all averages received, all frames for live peers taken.
  SessionState state() const;
  const SessionFailure& failure() const;  // requires kBroken
  // Over the checksums of all averaged chunks in order; equal on two members exactly when the
  // averages are (up to collisions), provided that they use the same frame_values. Requires kDone.
  Digest digest() const;

 private:
  struct Chunk {
    std::size_t next = 0;  // position in order_ of the contribution that is added next
    double weight = 0;     // of those added
    bool started = false, busy = false, ready = false;
    std::uint64_t payload_checksum = 0;  // once ready
  };
  struct Peer {
    std::int64_t contributions_sent = 0, averages_sent = 0;
    std::int64_t contributions_taken = 0, averages_taken = 0;  // received frames that were admitted
    bool lost = false;
  };

  std::int64_t chunks_of(int member) const;
  bool contributes(int member) const { return plan_.members[member].weight > 0; }
  FrameRef frame_at(FrameKind kind, int peer, int part, std::int64_t chunk) const;
  bool expected(int peer, const FrameHeader& header);
  std::optional<Work> plan_sum(std::int64_t chunk, int peer) const;
  Work begin(Work work);
  std::span<float> values(std::int64_t first, std::int64_t count) const;
  std::uint64_t values_checksum(std::span<const float> values, std::uint64_t payload) const;
  Status add_terms(const Work& work, Pieces payload);
  Status complete_sum(const Work& work, WorkResult& result);

  const ReducePlan plan_;
  int self_ = 0;
  const std::int64_t frame_values_;
  const std::span<const float> pseudo_gradient_;
  const std::span<float> average_;

  std::vector<int> order_;     // members with a weight, in the plan's order
  std::vector<double> share_;  // weight / largest weight, per member
  std::vector<float> factor_;  // share * clip factor, per member
  std::vector<Peer> peers_;
  std::vector<Chunk> chunks_;  // of the own part
  std::int64_t chunks_ready_ = 0;
  std::int64_t averages_done_ = 0, averages_due_ = 0;
  std::int64_t local_from_ = 0;              // own chunks before this one have no local work
  std::vector<std::byte> encoded_;           // own averaged part; empty with fp32
  std::vector<std::int64_t> checksum_base_;  // per part, index of its first chunk in checksums_
  std::vector<std::uint64_t> checksums_;     // of the values of each averaged chunk
  std::optional<SessionFailure> failure_;
};

}  // namespace shoal::outer_opt
