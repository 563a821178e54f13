// One end of a pipeline's stream between two replicas: frames in, frames out, pings, and the end.
// What frames mean is the owner's business.
//
// A frame is one message of wire/stream, its header the head, what follows the body: sent from
// where it lies, and received in one piece. A body above kMessageBytes continues in further
// messages without a head, each of kMessageBytes; so the first one has the odd part, and the last
// one is what holds the window until the owner has taken the frame.
//
// The dialed end opens the stream, and says by its purpose who speaks with whom. The other end
// answers when that replica is there; nothing is sent before. A stream ends once, for whatever
// reason; its owner is told once, unless it closed the stream.
//
// Bounds: of frames that the owner has not taken, the window of a stream, or 8 large ones; of
// messages that wait to be sent, kMessagesWaitingMax. Credits keep both far lower.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "messages/messages.h"
#include "swarm/pipeline/buffers.h"
#include "swarm/pipeline/frame.h"
#include "threads/mutex.h"
#include "wire/stream/peers.h"
#include "wire/timer_thread.h"

namespace shoal::swarm {

using Clock = wire::TimerThread::Clock;
// What follows a frame's header: shared by all who send it, and changed by nobody.
using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

inline constexpr std::size_t kMessageBytes = 4 << 20;
inline constexpr char kPipelinePurpose[] = "pipeline";
// The version of these streams. It is not the protocol of the messages: during an upgrade that
// changes only those, trainers of both versions serve one pipeline.
inline constexpr std::int32_t kPipelineProtocol = 4;

// Which stream it is: "pipeline PROTOCOL JOB EPOCH FROM TO", where FROM dials.
struct StreamName {
  JobId job;
  std::int64_t epoch = 0;
  ReplicaId from, to;
  std::int32_t protocol = kPipelineProtocol;
  bool operator==(const StreamName&) const = default;
};
std::string to_purpose(const StreamName& name);
std::optional<StreamName> parse_purpose(std::string_view purpose);

// A frame that has come.
struct Frame {
  FrameHeader header;
  std::vector<std::byte> body;
  std::size_t held = 0;  // bytes of the window, until taken()
};

class Stream;

// Where a stream's news go, never under the stream's lock: from the I/O thread, and from the
// reader of large frames.
class StreamOwner {
 public:
  virtual ~StreamOwner() = default;
  virtual void opened(Stream& stream) = 0;  // a dialed one: the other end has taken it
  // The most that a frame may bring: a larger one ends the stream at its header.
  virtual std::uint64_t body_max() const { return kFrameBodyMax; }
  // Anything but pings. True: the frame waits with the owner, who calls Stream::taken() for it.
  virtual bool received(Stream& stream, const Frame& frame) = 0;
  virtual void ended(Stream& stream, const std::string& why, bool bad_frame) = 0;
};

// What all streams of one process share.
struct StreamContext {
  wire::stream::Peers* peers = nullptr;
  std::shared_ptr<wire::TimerThread> timer;   // pings, dialing, what waits too long
  std::shared_ptr<wire::TimerThread> reader;  // of large frames: the I/O thread must not block
  std::shared_ptr<Buffers<std::byte>> bodies = std::make_shared<Buffers<std::byte>>();
};

struct StreamCounters {
  std::int64_t sent = 0, received = 0;  // bytes, headers of frames included
  std::int64_t forwards = 0;            // sent
  Duration round_trip;                  // of the last ping; zero: none came back yet
};

// Thread-safe.
class Stream final : public wire::stream::StreamEvents,
                     public std::enable_shared_from_this<Stream> {
 public:
  // To be dialed.
  Stream(const StreamContext& context, const StreamName& name);
  // Accepted: `forget` is called when it is over before it was started.
  Stream(const StreamContext& context, const StreamName& name,
         std::shared_ptr<wire::stream::Stream> stream, std::function<void(Stream&)> forget);

  const StreamName& name() const { return name_; }
  ReplicaId peer() const { return dialed_ ? name_.to : name_.from; }
  bool dialed() const { return dialed_; }

  // Dialed, once. The owner hears opened() or ended(). May wait for the name service.
  void dial(const std::string& address, std::shared_ptr<StreamOwner> owner);
  // Accepted: one of them, once.
  void start(std::shared_ptr<StreamOwner> owner);
  void refuse(const Error& why);

  // Never blocks. After the end: dropped.
  void send(const FrameHeader& header, SharedBytes body);
  void ping();
  void taken(std::size_t held);  // a frame that waited with the owner has left
  void break_off(const std::string& why, bool bad_frame);  // cancels at once; ended() follows
  void close();  // the same, but the owner hears nothing more
  StreamCounters counters();
  // For the thread that is in StreamOwner::received(): there is one at a time.
  outer_opt::EntropyCoder& coder() { return coder_; }

 private:
  std::optional<std::span<std::byte>> place(std::span<const std::byte> head,
                                            std::size_t size) override;
  void arrived(std::span<const std::byte> head, std::span<std::byte> body) override;
  void ended() override;
  void closed(const std::optional<Error>& error) override;

  void joined(const Result<std::shared_ptr<wire::stream::Pair>>& pair);
  void answered();
  Status begin(std::span<const std::byte> head, std::size_t size);
  bool is_answer(std::span<const std::byte> head) const;
  void complete(Frame frame);
  void pong(FrameHeader ping);
  void hand_on(Frame& frame);
  void send_what_waits() SHOAL_REQUIRES(mutex_);
  void end(const std::string& why) SHOAL_EXCLUDES(mutex_);

  const StreamContext context_;
  const StreamName name_;
  const bool dialed_;
  const std::function<void(Stream&)> forget_;

  // I/O thread.
  struct Incoming {
    Frame frame;
    std::size_t placed = 0, arrived = 0;
  };
  std::optional<Incoming> incoming_;
  std::shared_ptr<wire::stream::Pair> pair_;  // that was dialed
  bool answered_ = false;                     // dialed

  std::atomic<int> with_reader_{0};  // frames
  outer_opt::EntropyCoder coder_;

  Mutex mutex_;
  struct Outgoing {
    std::vector<std::byte> head;
    SharedBytes all;
    std::span<const std::byte> body;
  };
  std::shared_ptr<StreamOwner> owner_ SHOAL_GUARDED_BY(mutex_);  // none: not begun, closed, ended
  std::shared_ptr<wire::stream::Stream> stream_ SHOAL_GUARDED_BY(mutex_);  // until the end
  std::deque<Outgoing> queue_ SHOAL_GUARDED_BY(mutex_);
  int sending_ SHOAL_GUARDED_BY(mutex_) = 0;  // messages
  StreamCounters counters_ SHOAL_GUARDED_BY(mutex_);
  std::uint64_t body_max_ SHOAL_GUARDED_BY(mutex_) = 0;
  bool open_ SHOAL_GUARDED_BY(mutex_) = false;  // both ends know it
  bool over_ SHOAL_GUARDED_BY(mutex_) = false;
  bool bad_frame_ SHOAL_GUARDED_BY(mutex_) = false;
  std::string why_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::swarm
