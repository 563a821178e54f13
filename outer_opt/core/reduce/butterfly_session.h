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
// With plan.codes_own the owner's contribution is encoded and decoded like everybody else's, and an
// average has the same bits in every member: audits compare that (round/audit.h).
//
// The contributions are summed in place where the average is kept as values; beside that a session
// holds the encoding of its own averaged part (not with fp32). Where frames are kept, that encoding
// is theirs, and beside it are the sums of the chunks that some contributions have reached and
// others have not: at most 64 MiB or 16 of them. Who comes first waits then. With an aggregator
// other than the mean (aggregate.h) the owner keeps all contributions to its part, as many values
// as the whole vector has, and a chunk is averaged when the last one is there.
//
// With param_server some members are reducers: they own parts, have no weight, dial nobody, and no
// average is sent to them; so they need room for their own part only, and have no digest to vote
// with.
//
// In a group a clip factor scales not x_i but its distance from the owner's own vector a
// (ReduceInput.clip_center, groups.h): clip_i * x_i becomes a + clip_i * (x_i - a). The owner adds
// sum_i(w_i * (1 - clip_i)) * a last, when it is not 0.
//
// With an owner step (sync.outer_state = sharded) the owner makes the outer step of its averaged
// chunk before it encodes it; what is called the average here is that step then.
//
// A lost member that owns no part is excluded from the chunks it had not delivered. A lost owner
// breaks the attempt unless everything it owed us has arrived.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "outer_opt/core/codec/codec_pieces.h"
#include "outer_opt/core/reduce/average_frames.h"
#include "outer_opt/core/reduce/reduce_session.h"

namespace shoal::outer_opt {

class ButterflySession : public ReduceSession {
 public:
  // What is wrong with taking part as `self`; kValidation with the name of the field.
  static Status check(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                      const ReduceInput& input, std::size_t average_count);

  // check() must hold. The spans outlive the session.
  ButterflySession(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                   const ReduceInput& input, AverageRoom average);

  // Every member but a reducer dials the owners of parts.
  bool dials(int from, int to) const override {
    return from != to && owns(to) && !is_reducer(from);
  }
  bool tolerates_loss(int peer) const override { return !owns(peer); }

  bool sent_all(int peer, FrameKind kind) const override;
  std::span<const std::byte> resident(const FrameRef& frame) const override;
  void encode(const FrameRef& frame, std::span<std::byte> out) const override;

  std::int64_t frames_left(int peer, FrameKind kind) const override;
  int slowest() const override;
  WorkResult run(const Work& work, Pieces payload) override;

 protected:
  // For a session whose vectors lie on a device (outer_opt/cuda/device_butterfly.h): it does all
  // arithmetic itself and keeps the payload of its own averaged part here, fp32's too.
  enum class Keep { kWhatIsEncoded, kAll };
  ButterflySession(const ReducePlan& plan, ReplicaId self, std::int64_t frame_values,
                   const ReduceInput& input, AverageRoom average, Keep keep);
  std::span<std::byte> encoded_at(std::int64_t chunk, std::int64_t count);
  std::span<const std::byte> encoded_at(std::int64_t chunk, std::int64_t count) const;

  std::optional<FrameRef> pull(int peer, FrameKind kind) override;
  std::optional<FrameRef> due(int peer, FrameKind kind) const override;
  std::optional<Work> take(int peer, const FrameRef& frame) override;
  std::optional<Work> take_local() override;
  void settle(const Work& work, const WorkResult& result) override;
  void forget(int) override { local_from_ = 0; }
  bool complete() const override;
  std::vector<double> squares() const override;
  std::optional<std::uint64_t> known_checksum(const FrameRef& frame) const override;

 private:
  struct Chunk {
    std::size_t next = 0;  // position in order_ of the contribution that is added next
    double weight = 0;     // of those added
    double clipped = 0;    // what their clip factors took of it
    bool started = false, busy = false, ready = false;
    std::vector<int> kept;               // robust aggregators: members whose contribution is here
    std::uint64_t payload_checksum = 0;  // once ready
    SpareValues::Block sum;              // where frames are kept: from its start until it is ready
  };
  struct Peer {
    std::int64_t contributions_sent = 0, averages_sent = 0;
    std::int64_t contributions_taken = 0, averages_taken = 0;  // received frames that were admitted
  };

  bool owns(int member) const { return plan_.members[member].part_count > 0; }
  std::int64_t chunks_of(int member) const;
  FrameRef frame_at(FrameKind kind, int peer, int part, std::int64_t chunk) const;
  std::optional<Work> plan_sum(std::int64_t chunk, int peer) const;
  Work begin(Work work);
  bool robust() const { return plan_.aggregator != Aggregator::kMean; }
  Status sum_terms(const Work& work, Pieces payload, WorkResult& result);
  Status add_terms(const Work& work, const ValueRun& run, std::span<float> sum,
                   std::span<SquareSum> squares) const;
  Status add_own(std::int64_t first, float factor, std::span<float> sum, SquareSum& squares) const;
  void pull_back(const Work& work, const ValueRun& run, std::span<float> sum) const;
  double clipped_of(int member) const;
  void keep_frames();
  std::span<float> sum_of(const Work& work);
  Status keep_frame(const Work& work, Pieces payload, WorkResult& result);
  std::span<std::byte> own_payload(const Work& work);
  Status keep_terms(const Work& work, Pieces payload, WorkResult& result);
  void aggregate_kept(const Work& work);
  Status encode_kept(const Work& work, WorkResult& result);
  Status keep_own(const Work& work, std::span<float> kept) const;
  std::span<float> kept_at(int member, const Work& work);
  void take_owner_step(std::int64_t first, float inverse, std::span<float> run);

  const VectorSource pseudo_gradient_;
  const std::span<const float> momentum_, clip_center_;

  std::vector<int> order_;     // members with a weight, in the plan's order
  std::vector<float> factor_;  // share * clip factor, per member
  std::vector<Peer> peers_;
  std::vector<Chunk> chunks_;    // of the own part
  std::vector<double> squares_;  // of each of them, by member
  std::int64_t chunks_ready_ = 0;
  std::int64_t averages_done_ = 0, averages_due_ = 0;
  std::int64_t local_from_ = 0;        // own chunks before this one have no local work
  std::vector<std::byte> own_frames_;  // of the own part, where values are kept; not with fp32
  std::span<std::byte> encoded_;       // own averaged part, wherever it lies
  const AverageRoom room_;
  std::optional<AverageFrames> frames_;   // that are kept
  std::int64_t sums_ = 0, sums_max_ = 0;  // chunks that have one; at most, until they are complete
  std::vector<float> kept_;               // robust: of every member, its part of the own part
  std::vector<std::int64_t> checksum_base_;  // per part, index of its first chunk in checksums_
};

}  // namespace shoal::outer_opt
