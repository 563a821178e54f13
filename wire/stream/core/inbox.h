// The receiving half of a stream: where pieces go, which messages are complete, and how much of the
// window is taken. Pieces come in any order, messages leave in theirs. What the other end says
// about itself is checked here as far as a header alone cannot tell (frame.h): that it stays within
// its window, that the pieces of a message agree, and that none comes twice.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "wire/stream/core/frame.h"
#include "wire/stream/core/stream_events.h"

namespace shoal::wire::stream {

class Inbox {
 public:
  explicit Inbox(std::uint32_t window) : window_(window) {}

  // Where a piece goes. Nothing: the user does not want the message. Errors are the peer's.
  Result<std::optional<std::span<std::byte>>> place(const FrameHeader& header,
                                                    std::span<const std::byte> head,
                                                    StreamEvents& events);
  // A piece that was placed is there.
  void landed(const FrameHeader& header);

  // The next message that is complete, in order.
  struct Message {
    std::vector<std::byte> head;
    std::span<std::byte> body;
  };
  std::optional<Message> take();

  // The other end has sent `count` messages. Error: it had sent more, or says it twice.
  Status end_after(std::uint32_t count);
  bool ended() const { return count_ == next_; }

  // The user is done with a message that he took. Returns the credit that is to be sent, or 0: a
  // quarter of the window is collected first.
  std::uint32_t release(std::size_t body);

 private:
  struct Incoming {
    std::uint32_t size = 0;
    std::vector<std::byte> head;
    std::span<std::byte> body;
    std::uint64_t begun = 0, landed = 0;  // a bit for each piece
    bool complete() const;
  };
  Status check(const FrameHeader& header) const;
  Status check_again(const Incoming& known, const FrameHeader& header,
                     std::span<const std::byte> head) const;

  const std::uint32_t window_;
  std::map<std::uint32_t, Incoming> messages_;  // by number; bounded by the window
  std::uint32_t next_ = 0;                      // to be taken
  std::optional<std::uint32_t> count_;          // of all messages, once it is known
  std::uint64_t used_ = 0;                      // of the window
  std::uint64_t with_user_ = 0;                 // of used_: taken and not released
  std::uint32_t owed_ = 0;                      // released and not yet told
};

}  // namespace shoal::wire::stream
