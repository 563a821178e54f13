// A stream for a thread that may wait: it reads one message after another, and writes with little
// on its way. Code that serves or asks in a few steps uses this; code with many streams at
// once uses their events.
//
// Bounds. What has come and was not read stays within the stream's window. A writer waits while
// more than kAheadBytes of his are on their way. Every wait has a limit, and ends with the stream.
//
// Threads: the methods may be called from any thread but the node's I/O thread; read() from one.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "threads/mutex.h"
#include "wire/stream/node.h"

namespace shoal::wire::stream {

using ByteVector = std::vector<std::byte>;

class BlockingStream final : public StreamEvents,
                             public std::enable_shared_from_this<BlockingStream> {
 public:
  static constexpr std::size_t kAheadBytes = 512 << 10;

  struct Message {
    ByteVector head, body;
    Instant arrived;  // of a clock that is never set
  };

  // Wraps a stream that a peer opened.
  explicit BlockingStream(std::shared_ptr<Stream> stream);
  // Opens one. When it cannot be opened, the first read or write says why.
  static std::shared_ptr<BlockingStream> open(Pair& pair, std::string purpose, Duration limit);

  // The next message; nothing when the other end has ended. Errors: kDeadlineExceeded, none came
  // within `limit`; or why the stream is over.
  Result<std::optional<Message>> read(Duration limit);
  // Waits until it may be sent, not until it is. The body is shared until then.
  Status write(ByteVector head, std::shared_ptr<const ByteVector> body, Duration limit);
  // Waits until all that was written is on its way: a cancel comes behind it then.
  Status flush(Duration limit);
  // Waits until the other end has ended as well, or it is over.
  Status finish(Duration limit);
  void end();  // after what was written; the other end may still write
  void cancel(const Error& why);
  void set_limit(Duration limit);  // of the whole stream
  bool is_over() const;

 private:
  std::optional<std::span<std::byte>> place(std::span<const std::byte> head,
                                            std::size_t size) override;
  void arrived(std::span<const std::byte> head, std::span<std::byte> body) override;
  void ended() override;
  void closed(const std::optional<Error>& error) override;

  Status over() const SHOAL_REQUIRES(mutex_);
  void sent(std::size_t bytes);

  std::shared_ptr<Stream> stream_;
  std::map<const std::byte*, ByteVector> placed_;  // I/O thread

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Message> messages_ SHOAL_GUARDED_BY(mutex_);
  std::size_t ahead_ SHOAL_GUARDED_BY(mutex_) = 0;  // bytes of messages that are not sent yet
  bool ended_ SHOAL_GUARDED_BY(mutex_) = false, closed_ SHOAL_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ SHOAL_GUARDED_BY(mutex_);
};

// A pair that `dial` asks a node for, waited for; the handshake's limit bounds it.
Result<std::shared_ptr<Pair>> wait_for_pair(const std::function<void(Node::Dialed dialed)>& dial);
Result<std::shared_ptr<Pair>> dial_and_wait(Node& node, DialOptions options);

ByteVector to_bytes(std::string_view text);
std::string_view to_text(std::span<const std::byte> bytes);

}  // namespace shoal::wire::stream
