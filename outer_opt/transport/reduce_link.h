// One stream of a reduce: the dialed end sends contributions, the accepted one averages. The
// purpose of the stream names the attempt; the first message of the accepting end says that the
// attempt is known there, and whether it reads the dialing end's memory; all others are frames
// (frame_message.h). A cancel says who is to blame.
//
// A stream that a peer opens may come before its attempt is known here. Then it waits, with what
// has come of it: at most kEarlyFrames, and one that sends more before it has the answer is
// cancelled.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outer_opt/core/round/round.h"
#include "outer_opt/transport/frame_message.h"
#include "threads/clock.h"
#include "threads/mutex.h"
#include "wire/stream/node.h"

namespace shoal::outer_opt {

// Which attempt a stream belongs to.
struct AttemptKey {
  RoundKey key;
  std::int32_t attempt = 0;
  auto operator<=>(const AttemptKey&) const = default;
};

inline constexpr char kReducePurpose[] = "reduce";
inline constexpr int kEarlyFrames = 2;
inline constexpr Duration kStreamGrace = seconds(5);  // that a stream outlives its attempt at most

// What a stream says of itself when it is opened.
struct StreamName {
  ReplicaId from;
  AttemptKey key;
  std::string memory;  // the token of the memory that it lets the other end read; empty: none
  bool operator==(const StreamName&) const = default;
};
std::string to_purpose(const StreamName& name);
std::optional<StreamName> parse_purpose(std::string_view purpose);

// How a stream ended.
struct StreamEnd {
  bool ok = false;
  ReplicaId lost;  // the member that the other end blames
  std::string detail;
};
Error to_cancel(const StreamEnd& end);
StreamEnd parse_cancel(const Error& error);  // any other error blames nobody

class ReduceCall;

// Thread-safe. What is below "ReduceCall's" is guarded by the lock of the call.
class Link final : public wire::stream::StreamEvents, public std::enable_shared_from_this<Link> {
 public:
  // Dialed: of a call, to a member of it.
  Link(std::shared_ptr<ReduceCall> call, int peer);
  // Accepted: `forget` is called when it is over before it was joined to a call.
  Link(std::shared_ptr<wire::stream::Stream> stream, StreamName name,
       std::function<void(Link&)> forget);

  const StreamName& name() const { return name_; }  // of an accepted one
  bool is_closed() const;

  // Dialed: once.
  void open(wire::stream::Pair& pair, const StreamName& name, Duration limit);
  void not_dialed(const Error& why);
  // Accepted: one of them, once. What has come so far goes to the call.
  void join(const std::shared_ptr<ReduceCall>& call, Duration limit);
  void refuse(const StreamEnd& why);

  // To be called without the call's lock, when there is a stream.
  void answer(const std::string& memory);  // accepted, first
  void send(OutgoingMessage message);
  void release(std::size_t body);
  void end();
  void cancel(const StreamEnd& why);
  pid_t process() const;  // at the other end of a local socket; 0: unknown
  std::size_t connections() const;

  // ---- ReduceCall's

  const bool dialed;
  int peer = -1;
  bool is_open = false;     // it has a stream
  int starting = 0;         // threads about to call a method
  int sending = 0;          // frames that are on their way
  std::int64_t pulled = 0;  // frames that it has got to send
  bool answered = false;    // the other end knows the attempt
  bool asking = false;      // and whether it reads our memory is not known yet
  bool opening = false;     // getting at a payload, without the lock
  bool read_ended = false, writes_ended = false, broken = false, cancelled = false, over = false;
  std::deque<ReceivedFrame> frames;             // waiting for their turn
  bool cross_memory = false;                    // the two ends read each other's memory
  std::optional<wire::PeerMemory> peer_memory;  // of the peer
  std::chrono::steady_clock::time_point heard = std::chrono::steady_clock::now();

  FrameKind sends() const { return dialed ? FrameKind::kContribution : FrameKind::kAverage; }
  FrameKind receives() const { return dialed ? FrameKind::kAverage : FrameKind::kContribution; }

 private:
  using Event = std::function<void(ReduceCall& call)>;

  std::optional<std::span<std::byte>> place(std::span<const std::byte> head,
                                            std::size_t size) override;
  void arrived(std::span<const std::byte> head, std::span<std::byte> body) override;
  void ended() override;
  void closed(const std::optional<Error>& error) override;
  void tell(Event event);
  bool says_too_much();
  Buffer buffer_of(std::size_t size);

  std::shared_ptr<wire::stream::Stream> stream_;  // set before anything is sent or comes
  const StreamName name_;
  const std::function<void(Link&)> forget_;
  std::map<const std::byte*, Buffer> placed_;                  // I/O thread
  int early_frames_ = 0;                                       // I/O thread
  std::atomic<bool> has_answered_{false};                      // accepted
  mutable Mutex mutex_;                                        // taken before the call's
  std::shared_ptr<ReduceCall> call_ SHOAL_GUARDED_BY(mutex_);  // until the end
  std::vector<Event> early_ SHOAL_GUARDED_BY(mutex_);          // until there is a call
  bool is_closed_ SHOAL_GUARDED_BY(mutex_) = false;
  StreamEnd end_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal::outer_opt
