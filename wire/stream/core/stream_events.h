// What the user of a stream gives, and what he is told. All calls come from the node's I/O thread
// and must not block: what takes longer goes to a thread of the user's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"

namespace shoal::wire::stream {

using StreamId = std::uint32_t;  // odd: opened by the end that dialed; even: by the other one

struct OutMessage {
  std::vector<std::byte> head;                   // at most kHeadMax
  std::vector<std::span<const std::byte>> body;  // sent one after another, from where they lie
  // Called once: the memory of the body is not read any more. False: the stream was over before.
  std::function<void(bool sent)> done;
  std::size_t size() const {
    std::size_t sum = 0;
    for (const auto& part : body) sum += part.size();
    return sum;
  }
};

class StreamEvents {
 public:
  virtual ~StreamEvents() = default;

  // A message begins. Returns memory of `size` bytes for its body, which stays until arrived() or
  // closed(). Nothing: the message is not wanted, and the stream is cancelled. Messages that take
  // several connections may begin in another order than they were sent in.
  virtual std::optional<std::span<std::byte>> place(std::span<const std::byte> head,
                                                    std::size_t size) = 0;
  // It is complete; in the order in which messages were sent. The window stays narrower by it until
  // the user calls release(body.size()).
  virtual void arrived(std::span<const std::byte> head, std::span<std::byte> body) = 0;
  // The other end sends no more; all that it sent has arrived.
  virtual void ended() = 0;
  // The last call: nothing of the user's is read or written any more. Without an error both ends
  // have ended.
  virtual void closed(const std::optional<Error>& error) = 0;
};

}  // namespace shoal::wire::stream
