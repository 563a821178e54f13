// The streams of one replica: dials those that the session wants, again and again while they are
// wanted, takes those that others dial, checks and decodes what comes in, and keeps it in an inbox
// until the compute thread takes it. At most one stream per peer; a newer one replaces an older.
//
// A frame whose tensor is not what this stage takes is counted; a forward is refused to its sender,
// anything else ends the stream, because only that makes the sender send again. So does a frame
// that is far too large, at its header.
//
// Every method may be called from any thread. The inbox is bounded by the window of each stream
// (stream.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/backoff.h"
#include "base/prng.h"
#include "swarm/pipeline/buffers.h"
#include "swarm/pipeline/stage_compute.h"
#include "swarm/pipeline/stream.h"
#include "threads/mutex.h"

namespace shoal::swarm {

// What came in, in the order in which it came.
struct Connected {};
struct Lost {
  std::string why;
};
struct ArrivedForward {
  ForwardHeader header;
  std::vector<std::uint32_t> tokens;
  std::vector<float> input;
};
struct ArrivedBackward {
  BackwardHeader header;
  std::vector<float> tensor;  // gradient of the output, or logits
};
struct ArrivedCancel {
  ForwardHeader header;
};
struct ArrivedRefusal {
  ForwardHeader header;
  RefusalReason reason = RefusalReason::kPast;
};
struct Arrival {
  ReplicaId from;
  std::variant<Connected, Lost, ArrivedForward, ArrivedBackward, ArrivedCancel, ArrivedRefusal,
               ProgressGossip>
      news;
  std::shared_ptr<Stream> stream;  // a frame's: taken() is due
  std::size_t held = 0;
};

// What this stage takes and gives.
struct StageFacts {
  StageIndex stage = 0;
  std::int32_t stages = 1;
  StageShape shape;
  ActivationCodec codec = ActivationCodec::kFp32;
};
// Why a frame does not fit this stage; ok when it does. Looks at the header only.
Status check_facts(const StageFacts& facts, const FrameHeader& header);
// Twice what the largest frame of this stage has: those that do not fit are refused politely, and
// what is larger than that is not read at all.
std::uint64_t body_max_of(const StageFacts& facts);

struct NeighborsOptions {
  JobId job;
  std::int64_t epoch = 0;
  ReplicaId self;
  StageFacts facts;
  std::uint64_t seed = 1;
};

class Neighbors final : public StreamOwner, public std::enable_shared_from_this<Neighbors> {
 public:
  static std::shared_ptr<Neighbors> create(const NeighborsOptions& options,
                                           const StreamContext& context,
                                           std::function<void()> wake);

  // Streams to keep; other dialed ones are closed.
  void dial(const std::vector<PipelineMember>& peers);
  // A stream that a peer dialed: started, or refused with the reason.
  void accept(const std::shared_ptr<Stream>& stream);
  // Dropped when there is no stream to `to`: the inbox holds the news of its loss.
  void send(ReplicaId to, const FrameHeader& header, SharedBytes body);

  std::vector<Arrival> take();
  void recycle(std::vector<float> tensor) { buffers_.give_back(std::move(tensor)); }
  std::vector<LinkStats> links();  // of dialed peers
  std::int64_t bad_frames();
  // For each dialed peer without a stream: why its last one ended, or was refused.
  std::string troubles();
  void close();  // ends all streams; `wake` is not called any more

  void opened(Stream& stream) override;
  std::uint64_t body_max() const override { return body_max_of(options_.facts); }
  bool received(Stream& stream, const Frame& frame) override;
  void ended(Stream& stream, const std::string& why, bool bad_frame) override;

 private:
  struct Wanted {
    PipelineMember member;
    Backoff backoff{milliseconds(100), seconds(2)};
    std::shared_ptr<Stream> stream;  // dialing or open
    StreamCounters before;           // of streams that ended
    std::string trouble;             // why the last one ended
  };

  Neighbors(const NeighborsOptions& options, const StreamContext& context,
            std::function<void()> wake)
      : options_(options), context_(context), wake_(std::move(wake)), prng_(options.seed) {}
  Status take_over(const std::shared_ptr<Stream>& stream, std::shared_ptr<Stream>& replaced)
      SHOAL_EXCLUDES(mutex_);
  void dial_at(Clock::time_point when, ReplicaId peer);
  void dial_now(ReplicaId peer) SHOAL_EXCLUDES(mutex_);
  void ping_all() SHOAL_EXCLUDES(mutex_);
  bool refuse(Stream& stream, const FrameHeader& header, const std::string& why)
      SHOAL_EXCLUDES(mutex_);
  // A body whose size and checksum are right, expanded if it was entropy coded.
  struct OpenBody {
    FrameHeader header;
    std::vector<std::byte> plain;
    std::span<const std::byte> bytes;  // of the frame, or of `plain`
  };
  Status open(Stream& stream, const Frame& frame, OpenBody& open);
  bool read_forward(Stream& stream, const Frame& frame);
  bool read_backward(Stream& stream, const Frame& frame);
  bool push(Stream& stream, const Frame& frame, decltype(Arrival::news) news);
  void push(Arrival arrival) SHOAL_REQUIRES(mutex_);
  void call_wake() SHOAL_REQUIRES(mutex_);

  const NeighborsOptions options_;
  const StreamContext context_;
  const std::function<void()> wake_;
  Buffers<float> buffers_;  // of arrived tensors

  Mutex mutex_;
  CondVar awoken_;
  Prng prng_ SHOAL_GUARDED_BY(mutex_);
  std::map<ReplicaId, Wanted> wanted_ SHOAL_GUARDED_BY(mutex_);
  std::map<ReplicaId, std::shared_ptr<Stream>> open_
      SHOAL_GUARDED_BY(mutex_);  // dialed and accepted
  std::vector<Arrival> inbox_ SHOAL_GUARDED_BY(mutex_);
  std::int64_t bad_frames_ SHOAL_GUARDED_BY(mutex_) = 0;
  int waking_ SHOAL_GUARDED_BY(mutex_) = 0;  // threads in wake_
  bool wake_due_ SHOAL_GUARDED_BY(mutex_) = false;
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal::swarm
