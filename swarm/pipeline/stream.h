// One end of a stream between two replicas: frames in, frames out, on gRPC's callback API. Frames
// are cut into messages of at most 1 MiB and put together again; pings are answered here. What
// frames mean is the owner's business.
//
// As in outer_opt/transport/reduce_call.h, every callback ends in drive(), which does one thing
// after another under the lock and leaves it for the calls into gRPC, because those may call back.
// A stream ends once, for whatever reason; its owner is told once, unless it closed the stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include "swarm/pipeline/frame.h"
#include "threads/mutex.h"
#include "wire/emulated_line.h"
#include "wire/timer_thread.h"

namespace shoal::swarm {

using Clock = wire::TimerThread::Clock;
using Slices = std::vector<grpc::Slice>;

class Stream;

// Where a stream's news go, from gRPC's threads and the timer's, never under the stream's lock.
class StreamOwner {
 public:
  virtual ~StreamOwner() = default;
  virtual void opened(Stream& stream) = 0;  // a dialled one: the other end has taken it
  // The most that a frame may bring: a larger one ends the stream at its header.
  virtual std::uint64_t body_max() const { return kFrameBodyMax; }
  // Anything but pings. `body`: what follows the header, cut anywhere, for the time of the call.
  // True: the frame waits with the owner, who calls Stream::taken() for it later.
  virtual bool received(Stream& stream, const FrameHeader& header, Pieces body) = 0;
  virtual void ended(Stream& stream, const std::string& why, bool bad_frame) = 0;
};

// What all streams of one process share.
struct StreamContext {
  std::shared_ptr<wire::TimerThread> timer;
  std::shared_ptr<wire::EmulatedLine> line;  // of the connections that are dialled; may be null
};

struct StreamCounters {
  std::int64_t sent = 0, received = 0;  // bytes, headers included
  std::int64_t forwards = 0;            // sent
  Duration round_trip;                  // of the last ping; zero: none came back yet
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(StreamContext context, ReplicaId peer, bool dialled)
      : context_(std::move(context)), peer_(peer), dialled_(dialled), opening_(dialled) {}
  virtual ~Stream() = default;

  ReplicaId peer() const { return peer_; }
  bool dialled() const { return dialled_; }

  // Once: calls the peer, or takes its call. From now on the stream keeps itself alive.
  virtual void start(std::shared_ptr<StreamOwner> owner) = 0;

  // Never blocks. After the end: dropped. `body` is shared, not copied.
  void send(const FrameHeader& header, const Slices& body);
  void ping();
  void taken();  // a frame that waited with the owner waits no more
  void break_off(const std::string& why, bool bad_frame);  // cancels at once; ended() follows
  void close();  // the same, but the owner hears nothing more
  StreamCounters counters();
  // For the thread that is in StreamOwner::received().
  outer_opt::EntropyCoder& coder() { return coder_; }

 protected:
  // Accepted: reads from now on. Dialled: when the other end has answered.
  void begin(std::shared_ptr<StreamOwner> owner);
  void on_opened(bool ok);
  void on_read(bool ok, grpc::ByteBuffer& message);
  void on_written(bool ok);
  void on_closed(const std::string& why);  // the call is over
  void never_begun();                      // refused: nothing is to be done with it any more

  virtual void start_read() = 0;
  virtual void start_write(const grpc::ByteBuffer& message) = 0;
  virtual void cancel() = 0;
  virtual void finish() = 0;  // the last call; the stream goes away on its own

 private:
  struct Incoming {  // the frame that is being put together
    FrameHeader header;
    Slices slices;
    std::uint64_t missing = 0;
  };

  void drive() SHOAL_EXCLUDES(mutex_);
  bool step() SHOAL_REQUIRES(mutex_);
  bool write_next() SHOAL_REQUIRES(mutex_);
  bool settle() SHOAL_REQUIRES(mutex_);
  void enqueue(Slices slices, std::size_t size) SHOAL_REQUIRES(mutex_);
  void take_in(const Slices& message) SHOAL_EXCLUDES(mutex_);
  bool append(const Slices& message);
  std::uint64_t body_max() SHOAL_EXCLUDES(mutex_);
  void complete() SHOAL_EXCLUDES(mutex_);

  const StreamContext context_;
  const ReplicaId peer_;
  const bool dialled_;

  Mutex mutex_;
  std::shared_ptr<StreamOwner> owner_
      SHOAL_GUARDED_BY(mutex_);  // none: not begun, closed, or ended
  std::deque<Slices> queue_ SHOAL_GUARDED_BY(mutex_);
  StreamCounters counters_ SHOAL_GUARDED_BY(mutex_);
  // Touched by the one reader at a time only.
  std::optional<Incoming> incoming_;
  outer_opt::EntropyCoder coder_;
  bool opening_ SHOAL_GUARDED_BY(mutex_);  // dialled: no answer yet
  bool reading_ SHOAL_GUARDED_BY(mutex_) = false;
  bool writing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool over_ SHOAL_GUARDED_BY(mutex_) = false;
  bool cancelled_ SHOAL_GUARDED_BY(mutex_) = false;
  bool finished_ SHOAL_GUARDED_BY(mutex_) = false;
  bool bad_frame_ SHOAL_GUARDED_BY(mutex_) = false;
  std::string why_ SHOAL_GUARDED_BY(mutex_);
  int waiting_ SHOAL_GUARDED_BY(mutex_) = 0;   // frames with the owner; too many: no further read
  int starting_ SHOAL_GUARDED_BY(mutex_) = 0;  // threads about to call into gRPC
};

}  // namespace shoal::swarm
