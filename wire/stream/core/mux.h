// What one end of a pair knows of the streams between the two: who may open them, what is on its
// way in both directions, and how each ends. It has no sockets: connections ask next() for a frame
// to write, and hand over the frames that they read. Either end opens streams.
//
//   opened ─► both send ─► one has ended ─► closed       in order, without an error
//      └──────────┴──────────────┴────────► closed       cancelled by either end, or the pair broke
//
// Connections of a pair are alike except the first: until the other end has accepted a stream, its
// frames take that one, so that they come behind the frame that opens it.
//
// Errors of begin(), control() and landed() are the peer's breaches: the pair is to be given up.
//
// Not thread-safe. Calls StreamEvents, which may call back.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "base/result.h"
#include "wire/stream/core/frame.h"
#include "wire/stream/core/inbox.h"
#include "wire/stream/core/outbox.h"
#include "wire/stream/core/stream_events.h"

namespace shoal::wire::stream {

// What this node takes from one peer, and keeps for it. Checked by check_quotas().
struct Quotas {
  std::uint32_t message_max = kMessageMax;  // bytes of a body; at least kPieceBytes
  std::uint32_t window = 2 * kMessageMax;   // bytes of a stream that are not released yet
  std::uint32_t streams_max = 64;           // that the peer may have open at once
  std::uint32_t queue_max = 64;             // messages that wait in a stream of ours
  std::uint32_t words_max = 4096;           // frames other than data that wait: a peer that asks
                                            // for more and does not read is given up
};
// Error: validation, with the field's name.
Status check_quotas(const Quotas& quotas);

enum class Side { kDialer, kAcceptor };

struct MuxHooks {
  // The peer opens a stream. Null: it is refused. The pointer is kept until closed().
  std::function<std::shared_ptr<StreamEvents>(StreamId, std::string_view purpose)> accept;
  // Connections release all memory of the stream's user, at once.
  std::function<void(StreamId)> detach;
  // There may be something to write.
  std::function<void()> wake;
};

class Mux {
 public:
  Mux(Side side, const Quotas& quotas, MuxHooks hooks);
  void meet(const Hello& peer);  // before anything else

  // ---- the user's

  // Errors: resource_exhausted, the peer takes no further stream; validation, the purpose is longer
  // than kTextMax. The events are kept until closed().
  Result<StreamId> open(std::string_view purpose, std::shared_ptr<StreamEvents> events);
  // `done` is called in any case. Errors: validation, the message is larger than the peer takes;
  // resource_exhausted, queue_max messages wait; cancelled, the stream is over or was ended.
  Status send(StreamId stream, OutMessage message);
  void end(StreamId stream);  // after what waits
  void cancel(StreamId stream, const Error& why);
  void release(StreamId stream, std::size_t body);
  void fail(const Error& why);  // the pair is over: every stream closes
  std::size_t open_streams() const { return streams_.size(); }

  // ---- the connections'

  std::optional<OutFrame> next(bool first_lane);

  // A frame of data: where its part of the body goes. Nothing: nowhere, its bytes are dropped.
  Result<std::optional<std::span<std::byte>>> begin(const FrameHeader& header,
                                                    std::span<const std::byte> head);
  // A frame of data is there that had a place.
  Status landed(const FrameHeader& header);
  // Any other frame but hello and beat.
  Status control(const FrameHeader& header, std::span<const std::byte> words);

 private:
  struct Stream {
    std::shared_ptr<StreamEvents> events;
    Inbox inbox;
    bool is_ours = false;
    bool ends = false, has_ended = false;  // we: after what waits; said so
    bool peer_ended = false;               // the user knows it
  };
  using StreamPtr = std::shared_ptr<Stream>;

  bool is_ours(StreamId id) const;
  StreamPtr find(StreamId id) const;
  Status be_known(StreamId id) const;  // error: the peer never opened it, nor did we
  Status accept(StreamId id, std::span<const std::byte> purpose);
  void refuse(StreamId id, Code code, std::string_view why);
  Status end_of_peer(StreamId id, std::uint32_t count);
  void deliver(StreamId id);
  void end_if_sent(StreamId id);
  void close_if_over(StreamId id);
  void close(StreamId id, const std::optional<Error>& error);
  void say(FrameHeader header, std::vector<std::byte> words = {});

  const Side side_;
  const Quotas quotas_;
  const MuxHooks hooks_;
  Hello peer_;
  bool is_over_ = false;
  std::map<StreamId, StreamPtr> streams_;
  std::set<StreamId> unknown_to_peer_;  // opened by us, not yet accepted
  StreamId next_ours_, last_theirs_ = 0;
  std::size_t theirs_ = 0;  // open streams of the peer
  Outbox outbox_;
  std::deque<OutFrame> words_;     // frames other than data
  std::optional<StreamId> taken_;  // whose piece next() gave last
};

}  // namespace shoal::wire::stream
