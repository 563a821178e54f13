// One connection of a pair: reads frames and hands them over, asks for frames and writes them.
//
// A lane asks for its next frame when the socket has taken the last one. On a socket that holds
// much unsent (TCP_NOTSENT_LOWAT) it waits, so among several lanes the frames go to whichever is
// free, and a word that ends a stream waits behind little.
//
// Life: greet() shakes hands and exchanges hellos, with a deadline; then run() for its user, until
// over(), which is the last call. A lane says something at least every beat, and is over when it
// has heard nothing for kSilence ticks, or written nothing of what waits for kStall.
//
// Threads: the I/O thread only.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "base/time.h"
#include "wire/congestion_control.h"
#include "wire/stream/asio.h"
#include "wire/stream/carrier.h"
#include "wire/stream/core/frame.h"
#include "wire/stream/core/outbox.h"

namespace shoal::wire::stream {

class Lane;

// The user of a lane.
class LaneUser {
 public:
  virtual ~LaneUser() = default;
  virtual std::optional<OutFrame> next_frame(const Lane& lane) = 0;
  virtual Result<std::optional<std::span<std::byte>>> data_begins(
      const FrameHeader& header, std::span<const std::byte> head) = 0;
  virtual Status data_landed(const FrameHeader& header) = 0;
  virtual Status word(const FrameHeader& header, std::span<const std::byte> words) = 0;
  virtual void over(Lane& lane, const Error& why) = 0;
};

class Lane : public std::enable_shared_from_this<Lane> {
 public:
  using Greeted = std::function<void(Result<Hello>)>;

  // Owns the descriptor, which is non-blocking and may still be connecting.
  Lane(net::io_context& io, int fd, std::unique_ptr<Carrier> carrier, bool dials);
  ~Lane();

  // Says `hello` as soon as it can, if there is one; calls `greeted` with the peer's, or with why
  // there is none. Nothing is read behind it until run().
  void greet(const std::optional<Hello>& hello, Duration limit, Greeted greeted);
  void say(const Hello& hello);  // the answer of the accepting end
  void run(LaneUser& user, std::uint32_t message_max);
  void wake();                   // there may be a frame to write
  void detach(StreamId stream);  // nothing of the stream's memory is read or written any more
  void tick();                   // half a beat has passed
  void close();                  // in silence

  std::uint16_t number = 0;  // in its pair
  bool is_local = false;     // over a Unix socket, to a process of the same user
  pid_t process = 0;         // at the other end of a Unix socket; 0: unknown
  std::optional<identity::PeerName> peer() const { return carrier_->peer(); }
  // As which refusal it counts that greet() failed; none: the other end refused us.
  std::optional<RefusalReason> refusal() const { return refusal_; }
  int fd() const { return fd_; }
  bool is_over() const { return state_ == State::kOver; }

 private:
  enum class State { kConnecting, kShaking, kGreeting, kIdle, kRunning, kOver };
  struct Loaded {
    HeaderBytes header;
    OutFrame frame;
  };

  void fail(const Error& why);
  void shake();
  void wait(Wait what, void (Lane::*then)());
  bool has_connected();

  void read_some();
  void arrived(std::size_t bytes);
  bool take_next();  // false: more bytes are needed, or nobody wants them
  void take_hello(const FrameHeader& header, std::span<const std::byte> words);
  void take_frame(const FrameHeader& header, std::span<const std::byte> words);
  bool take_body();
  std::span<std::byte> direct_target();
  std::span<std::byte> room();
  std::size_t unread() const { return in_end_ - in_begin_; }

  void write_some();
  bool load();
  void load_frame(OutFrame frame);
  void wrote(std::size_t bytes);
  void let_go_of_loaded();

  Descriptor descriptor_;
  const int fd_;
  CongestionControl congestion_{fd_};
  const std::unique_ptr<Carrier> carrier_;
  const bool dials_;
  net::steady_timer limit_;
  State state_ = State::kConnecting;
  std::optional<Hello> to_say_;
  Greeted greeted_;
  std::optional<RefusalReason> refusal_ = RefusalReason::kMalformed;
  LaneUser* user_ = nullptr;
  std::uint32_t message_max_ = kMessageMax;

  // Reading: what has arrived and is not taken; the frame whose body comes, and where it goes.
  std::array<std::byte, 16 << 10> in_;
  std::size_t in_begin_ = 0, in_end_ = 0;
  std::optional<FrameHeader> header_;
  bool placed_ = false;  // false: the body is dropped
  std::byte* target_ = nullptr;
  std::size_t body_left_ = 0;
  bool reading_ = false;

  // Writing: all frames that were loaded together, and what is left of them.
  std::deque<Loaded> loaded_;
  std::vector<std::span<const std::byte>> parts_;
  std::size_t parts_begin_ = 0;
  std::vector<std::byte> copy_;  // what is left, when an owner wants his memory back
  bool writing_ = false;

  int silent_ = 0, mute_ = 0, stuck_ = 0;  // ticks since something was heard, said, got rid of
};

}  // namespace shoal::wire::stream
