// One attempt of an all-gather at one member, without I/O: everybody sends its sparse2 encoding
// (sparse2.h) to everybody and averages all of them per index, in the order of the plan's members.
// Nobody owns a part, and there are no average frames. All have the same bytes and the same order,
// so all get the same bits.
//
// A member sends (n - 1) encodings of 0.164 bit per value and receives as many, so this is for few
// bits and few members: at 73 members a dense codec of 8 bits costs no more.
//
// Driven as a ButterflySession is (reduce_session.h): all frames are resident, and a received one
// is admitted at once, because the room for all of them is there from the start. A lost member that
// had not sent all it owed breaks the attempt; one that had is kept, and the vote finds out whether
// that was so everywhere.
#pragma once

#include "outer_opt/core/reduce_session.h"

namespace shoal::outer_opt {

class AllgatherSession {
 public:
  // What is wrong with taking part as `self`; kValidation with the name of the field. frame_values
  // is a multiple of kSparseChunk, no member owns a part, all can be dialled.
  static Status check(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                      std::size_t encoded_bytes, std::size_t average_count);

  // check() must hold. `encoded` (ErrorFeedback::encode) may be empty with a weight of 0. The spans
  // outlive the session.
  AllgatherSession(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                   std::span<const std::byte> encoded, std::span<float> average);

  int self() const { return self_; }
  int members() const { return static_cast<int>(plan_.members.size()); }
  const ReducePlan& plan() const { return plan_; }
  bool owns(int) const { return true; }  // everybody receives contributions

  // ---- sending
  std::optional<FrameRef> next_frame(int peer, FrameKind kind);  // it counts as sent
  bool sent_all(int peer, FrameKind kind) const;
  std::span<const std::byte> resident(const FrameRef& frame) const;
  FrameHeader header(const FrameRef& frame, std::span<const std::byte> payload) const;

  // ---- receiving
  bool received_all(int peer, FrameKind kind) const;
  // The live member that is furthest behind with what it owes us, else with what it has not taken
  // from us; -1: nobody is behind.
  int slowest() const;
  // An error breaks the session, and gives no work.
  std::optional<Work> admit(int peer, const FrameHeader& header);
  // Arithmetic that needs no frame. To be asked at the start and after finish().
  std::optional<Work> local_work();
  WorkResult run(const Work& work, Pieces payload);
  void finish(const Work& work, const WorkResult& result);

  // ---- ends
  void peer_lost(int peer, const std::string& detail);
  void fail(SessionFailure failure);  // the first failure counts
  // Done: everything averaged, all frames for live peers taken.
  SessionState state() const;
  const SessionFailure& failure() const;  // requires kBroken
  // Equal on two members exactly when the averages are (up to collisions). Requires kDone.
  Digest digest() const;

 private:
  struct Peer {
    std::int64_t sent = 0, taken = 0;  // frames; taken: admitted
    bool lost = false;
    std::vector<std::byte> encoded;  // what it sends; empty when it contributes nothing
  };

  bool contributes(int member) const { return plan_.members[member].weight > 0; }
  FrameRef frame_at(int peer, int sender, std::int64_t chunk) const;
  // Of a member's whole encoding, the bytes of some of its values.
  static std::span<const std::byte> part_of(std::span<const std::byte> encoded, std::int64_t first,
                                            std::int64_t count);
  Status store(const Work& work, Pieces payload);
  Status average(const Work& work) const;

  const ReducePlan plan_;
  const int self_;
  const std::int64_t frame_values_, chunks_;
  const std::span<const std::byte> encoded_;
  const std::span<float> average_;

  std::vector<double> share_;  // weight / largest weight, per member
  std::vector<Peer> peers_;
  int due_ = 0;                            // members that send to us
  std::vector<int> arrived_;               // per chunk, frames that are stored
  std::int64_t begun_ = 0, averaged_ = 0;  // chunks whose average was begun, is done
  std::vector<std::uint64_t> checksums_;   // of the values of each averaged chunk
  std::optional<SessionFailure> failure_;
};

}  // namespace shoal::outer_opt
