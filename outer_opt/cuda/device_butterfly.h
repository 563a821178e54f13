// A butterfly (outer_opt/core/reduce/butterfly_session.h) whose vectors lie on a device: the
// decisions are those of its base, the arithmetic is done where the values are. Only encoded frames
// cross to the host, and the averaged values once, for the checksums that the vote is made of. With
// every codec a frame has the same bytes, and an average the same bits, as on the CPU: members with
// and without a device can stand in one plan.
//
// Overlap: every frame that is worked on has a lane of its own, and while a frame for a peer is on
// its way the next one for the same peer is encoded and copied. run() and encode() may be called by
// several threads as ReduceSession says; for one peer, encode() by one at a time.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "outer_opt/core/reduce/butterfly_session.h"
#include "outer_opt/cuda/staging.h"

namespace shoal::outer_opt {

class DeviceButterfly final : public ButterflySession {
 public:
  // Whether a plan can be computed so: a butterfly or reducers beside it, the mean, a dense codec.
  static bool suits(const ReducePlan& plan);

  // ButterflySession::check() and suits() must hold. The pseudo-gradient and `average` are on the
  // device; they and `lanes` live as long as `owner`, which the session keeps: a transport may let
  // go of it after the attempt is over.
  DeviceButterfly(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                  const ReduceInput& input, std::span<float> average, LaneShelf& lanes,
                  std::shared_ptr<const void> owner);
  ~DeviceButterfly() override;

  std::span<const std::byte> resident(const FrameRef& frame) const override;
  void encode(const FrameRef& frame, std::span<std::byte> out) const override;
  WorkResult run(const Work& work, Pieces payload) override;

 private:
  // What is sent to one peer: its lane, and the chunk that is being encoded in it, if any.
  struct Sender {
    std::unique_ptr<Lane> lane;
    std::optional<std::int64_t> ahead;
  };

  Status run_in(Lane& lane, const Work& work, Pieces payload, WorkResult& result);
  void queue_sum(Lane& lane, const Work& work);
  void queue_squares(Lane& lane, const std::byte* encoded, std::size_t count, int* damaged,
                     cuda::PartialStatistics* statistics);
  void queue_encode(Lane& lane, const Work& work);
  Status collect(Lane& lane, const Work& work, WorkResult& result);
  void give_checksums(Lane& lane, const Work& work, std::span<const std::byte> payload,
                      WorkResult& result) const;
  std::span<std::byte> bytes_of(const DeviceMemory<std::byte>& memory, const Work& work) const;
  void start_encoding(Sender& sender, const FrameRef& frame) const;
  float* average_at(const Work& work) const { return average_.data() + work.first; }

  const std::shared_ptr<const void> owner_;
  const std::span<const float> pseudo_gradient_;
  LaneShelf& lanes_;
  mutable std::vector<Sender> senders_;  // by peer; each is touched by the thread that sends to it
};

}  // namespace shoal::outer_opt
