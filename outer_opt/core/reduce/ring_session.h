// One attempt of a ring all-reduce at one member, without I/O. The plan's order is the ring: each
// member speaks to the one after it and the one before it only. Part j starts as the contribution
// of the member after j and travels forward, each member adding its own, until its owner j has the
// sum. The owner divides, encodes once, and the average travels backward, unchanged, until it was
// everywhere:
//
//   member i   -- sums of the parts i-1, i-2, ..., i+1 -->     member i+1
//              <-- averages of the parts i+1, i+2, ..., i-1 --
//
// Both directions of every connection are busy at the same time. A member sends 2(n-1)/n of the
// vector, as with a butterfly, but to two neighbors instead of n-1, and over n-1 hops each way. A
// sum is encoded again by every hop, so n-1 roundings instead of one; averages have the same bits
// everywhere, the owner's own too, because all decode its encoding.
//
// The first sum of a part is fresh, then members add in the order of the ring: fp32, one rounding
// per operation, weights relative to the largest. A member of weight 0 passes sums on.
//
// Sums lie in `average` until the average comes; beside that a session holds the encoding of all
// averages (not with fp32), to pass them on. Bytes that the transport may still read may be written
// again when the average of their chunk has come: it cannot exist before they arrived. Nobody can
// be excluded: a lost neighbor that owes something breaks the attempt.
#pragma once

#include <optional>
#include <vector>

#include "outer_opt/core/codec/codec_pieces.h"
#include "outer_opt/core/reduce/reduce_session.h"

namespace shoal::outer_opt {

class RingSession final : public ReduceSession {
 public:
  // What is wrong with taking part as `self`; kValidation with the name of the field.
  static Status check(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                      const ReduceInput& input, std::size_t average_count);

  // check() must hold. The spans outlive the session.
  RingSession(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
              const ReduceInput& input, std::span<float> average);

  bool dials(int from, int to) const override { return from != to && to == around(from, 1); }
  bool tolerates_loss(int) const override { return false; }

  bool sent_all(int peer, FrameKind kind) const override;
  std::span<const std::byte> resident(const FrameRef& frame) const override;
  void encode(const FrameRef& frame, std::span<std::byte> out) const override;

  std::int64_t frames_left(int peer, FrameKind kind) const override;
  int slowest() const override;
  WorkResult run(const Work& work, Pieces payload) override;

 protected:
  std::optional<FrameRef> pull(int peer, FrameKind kind) override;
  std::optional<FrameRef> due(int peer, FrameKind kind) const override;
  std::optional<Work> take(int peer, const FrameRef& frame) override;
  std::optional<Work> take_local() override;
  void settle(const Work& work, const WorkResult& result) override;
  bool complete() const override { return averaged_ == static_cast<std::int64_t>(chunks_.size()); }
  std::optional<std::uint64_t> known_checksum(const FrameRef& frame) const override;

 private:
  struct Place {
    int part = 0;
    std::int64_t chunk = 0;
  };
  struct Chunk {
    bool summed = false, sent = false, averaged = false;  // summed: up to here
    std::uint64_t payload_checksum = 0;                   // once averaged
  };
  // What one neighbor is sent or sends, in order, and how far that is.
  struct Course {
    std::vector<Place> places;
    std::size_t next = 0;
    std::size_t left() const { return places.size() - next; }
    bool over() const { return left() == 0; }
  };

  void lay_out_chunks();
  int around(int member, int steps) const;  // the ring
  Course course(int first_part, int step, int parts) const;
  std::size_t index(const Place& place) const;
  FrameRef frame_at(FrameKind kind, int peer, const Place& place) const;
  Work work_at(const FrameRef& frame) const;
  Status add(const Work& work, Pieces payload, WorkResult& result);
  Status add_run(const Work& work, const ValueRun& run, std::span<float> sum) const;
  Status keep_average(const Work& work, Pieces payload, WorkResult& result);
  std::span<std::byte> encoded_at(const Work& work);  // empty with fp32

  const VectorSource pseudo_gradient_;
  const int before_, after_;
  float factor_ = 0, inverse_ = 0;        // of the own contribution; of the whole sum
  std::vector<std::int64_t> chunk_base_;  // per part, index of its first chunk
  std::vector<Chunk> chunks_;
  Course started_here_, sums_out_, sums_in_, averages_out_, averages_in_;
  std::int64_t averaged_ = 0;              // chunks
  std::vector<std::byte> encoded_;         // averages, to be passed on; empty with fp32
  std::vector<std::size_t> encoded_base_;  // per chunk
};

}  // namespace shoal::outer_opt
