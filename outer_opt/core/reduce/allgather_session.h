// One attempt of an all-gather at one member, without I/O: everybody sends its sparse2 encoding
// (sparse2.h) to everybody and averages all of them per index, in the order of the plan's members.
// Nobody owns a part, and there are no average frames. All have the same bytes and the same order,
// so all get the same bits.
//
// A member sends (n - 1) encodings of 0.164 bit per value and receives as many, so this is for few
// bits and few members: at 73 members a dense codec of 8 bits costs no more.
//
// All frames are resident, and a received one is admitted at once, because the room for all of them
// is there from the start. A lost member that had not sent all it owed breaks the attempt; one that
// had is kept, and the vote finds out whether that was so everywhere.
#pragma once

#include "outer_opt/core/reduce/reduce_session.h"

namespace shoal::outer_opt {

class AllgatherSession final : public ReduceSession {
 public:
  // What is wrong with taking part as `self`; kValidation with the name of the field. frame_values
  // is a multiple of kSparseChunk, no member owns a part, all can be dialed.
  static Status check(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                      const ReduceInput& input, std::size_t average_count);

  // check() must hold. The spans outlive the session.
  AllgatherSession(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                   const ReduceInput& input, std::span<float> average);

  bool dials(int from, int to) const override { return from != to; }
  bool tolerates_loss(int) const override { return false; }

  bool sent_all(int peer, FrameKind kind) const override;
  std::span<const std::byte> resident(const FrameRef& frame) const override;

  std::int64_t frames_left(int peer, FrameKind kind) const override;
  int slowest() const override;
  WorkResult run(const Work& work, Pieces payload) override;

 protected:
  std::optional<FrameRef> pull(int peer, FrameKind kind) override;
  std::optional<FrameRef> due(int peer, FrameKind kind) const override;
  std::optional<Work> take(int peer, const FrameRef& frame) override;
  std::optional<Work> take_local() override;
  void settle(const Work& work, const WorkResult& result) override;
  bool complete() const override { return averaged_ == chunks_; }
  std::vector<double> squares() const override;

 private:
  struct Peer {
    std::int64_t sent = 0, taken = 0;  // frames; taken: admitted
    std::vector<std::byte> encoded;    // what it sends; empty when it contributes nothing
  };

  FrameRef frame_at(int peer, int sender, std::int64_t chunk) const;
  // The bytes of some values within a member's whole encoding.
  static std::span<const std::byte> part_of(std::span<const std::byte> encoded, std::int64_t first,
                                            std::int64_t count);
  Status store(const Work& work, Pieces payload, WorkResult& result);
  Status average(const Work& work) const;

  const std::int64_t chunks_;
  const std::span<const std::byte> encoded_;

  std::vector<Peer> peers_;
  int due_ = 0;                            // members that send to us
  std::vector<int> arrived_;               // per chunk, frames that are stored
  std::vector<double> squares_;            // of each chunk, by member
  std::int64_t begun_ = 0, averaged_ = 0;  // chunks whose average was begun, is done
};

}  // namespace shoal::outer_opt
