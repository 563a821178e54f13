// The sending half of all streams of a pair: messages that wait, the credit of each stream, and
// whose piece is next. Streams take turns piece by piece. Any connection may take the next piece;
// of a stream that the other end may not know yet only the first one, behind the frame that opens
// it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "wire/stream/core/frame.h"
#include "wire/stream/core/stream_events.h"

namespace shoal::wire::stream {

// A message on its way. It is done when all of it was written, or when its stream is over and no
// connection holds a piece of it.
struct Sending {
  OutMessage message;
  std::uint32_t number = 0, size = 0, offset = 0;  // offset: of the next piece
  int held = 0;                                    // pieces that connections hold
  bool dropped = false;
};

// A frame that a connection writes. `words` are what follows the header of all but data.
struct OutFrame {
  FrameHeader header;
  std::vector<std::byte> words;
  std::shared_ptr<Sending> message;  // of data
  // What follows the header, in order.
  std::vector<std::span<const std::byte>> payload() const;
};

class Outbox {
 public:
  explicit Outbox(std::size_t queue_max) : queue_max_(queue_max) {}

  // `credit`: bytes that may be sent before more is granted.
  void add(StreamId stream, std::uint32_t credit, bool known_to_peer);
  void peer_knows(StreamId stream);
  void remove(StreamId stream);  // what waits is dropped
  // Error: resource_exhausted, when queue_max messages wait.
  Status send(StreamId stream, OutMessage message);
  Status add_credit(StreamId stream, std::uint32_t bytes);  // error: more than a peer can grant
  // How many messages were sent, when none waits any more.
  std::optional<std::uint32_t> count_if_empty(StreamId stream) const;

  std::optional<OutFrame> next(bool first_lane);
  // The connection no longer holds the frame.
  static void let_go(OutFrame& frame);

 private:
  struct Queue {
    std::deque<std::shared_ptr<Sending>> messages;
    std::uint64_t credit = 0;
    std::uint32_t sent = 0;  // messages that were given a number
    bool known_to_peer = false;
  };
  static void finish(Sending& sending, bool sent);
  static std::optional<OutFrame> piece_of(StreamId stream, Queue& queue);

  const std::size_t queue_max_;
  std::map<StreamId, Queue> queues_;
  StreamId last_ = 0;  // whose piece was taken
};

}  // namespace shoal::wire::stream
