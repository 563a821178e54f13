// Two nodes that are joined, and the streams between them. Either end opens streams, regardless of
// which one dialed.
//
// A pair has one connection or several, where one socket's buffers cannot fill the line. They are
// parts of one whole: with one of them the pair is gone, and with it every stream.
//
// Threads: methods of Stream and Pair may be called from any thread, and never block; their effects
// happen on the node's I/O thread, in the order of the calls. Events come from there; what an event
// calls happens after it, behind what others had called before.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "threads/mutex.h"
#include "wire/stream/asio.h"
#include "wire/stream/core/mux.h"
#include "wire/stream/lane.h"

namespace shoal::wire::stream {

class Pair;

// The user's hold on a stream. The stream itself ends by what either end does, by its limit, or
// with its pair; letting go of this does not end it.
class Stream final : public StreamEvents, public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(std::shared_ptr<Pair> pair);
  ~Stream() override;

  // The body must stay until `done` is called. A message that the peer would not take, or that
  // exceeds the queue, cancels the stream; `done` is called in any case.
  void send(OutMessage message);
  void end();  // after what waits; the other end may still write
  void cancel(const Error& why);
  // The user is done with a message of that many bytes, which had arrived.
  void release(std::size_t body);
  // Cancelled with deadline_exceeded so long from now, in place of an earlier limit.
  void set_limit(Duration limit);

  const std::shared_ptr<Pair>& pair() const { return pair_; }

 private:
  friend class Pair;
  template <typename Do>
  void on_thread(Do what);
  std::optional<std::span<std::byte>> place(std::span<const std::byte> head,
                                            std::size_t size) override;
  void arrived(std::span<const std::byte> head, std::span<std::byte> body) override;
  void ended() override;
  void closed(const std::optional<Error>& error) override;

  const std::shared_ptr<Pair> pair_;
  std::shared_ptr<StreamEvents> events_;  // until closed(); I/O thread
  StreamId id_ = 0;                       // I/O thread
  net::steady_timer limit_;               // I/O thread
  bool is_over_ = false;                  // I/O thread
};

// Gives a stream its user, who may keep it: both release each other after closed().
using MakeEvents = std::function<std::shared_ptr<StreamEvents>(std::shared_ptr<Stream> stream)>;

// A peer opens a stream. Null: refused.
using AcceptStream = std::function<std::shared_ptr<StreamEvents>(std::shared_ptr<Stream> stream,
                                                                 std::string_view purpose)>;

class Pair final : private LaneUser, public std::enable_shared_from_this<Pair> {
 public:
  struct Options {
    Side side = Side::kDialer;
    Hello own;  // as it is said on the first connection
    bool is_local = false;
    pid_t process = 0;  // of the other end; 0: unknown
    Quotas quotas;
    Duration beat = seconds(2);
    Duration stream_limit;  // of streams that the peer opens
    AcceptStream accept;
    std::function<void(Pair&)> over;  // once, from the I/O thread, after all streams are closed
    std::function<void(RefusalReason)> refused;  // the peer broke a rule, which ends the pair
  };
  Pair(std::shared_ptr<net::io_context> io, Options options);

  // The purpose goes to the other end's AcceptStream. `make` is called at once, by the caller's
  // thread. When the stream cannot be opened, closed() is called with the reason.
  std::shared_ptr<Stream> open(std::string purpose, const MakeEvents& make, Duration limit);
  void close();  // with all its streams

  // The proven identity of the other end; nothing over Unix sockets, where it is a process of the
  // same user, and without TLS.
  const std::optional<identity::PeerName>& peer() const { return peer_; }
  // Over Unix sockets, with or without a line that is made up.
  bool is_local() const { return options_.is_local; }
  // The process at the other end of a Unix socket with no line between; 0: unknown.
  pid_t process() const { return options_.process; }
  bool has_dialed() const { return options_.side == Side::kDialer; }
  bool is_over() const { return is_over_; }          // any thread
  std::size_t lanes() const { return lane_count_; }  // that were ever connected

  // ---- the node's, on the I/O thread

  void begin(const Hello& peer, std::shared_ptr<Lane> first);
  Status add(const Hello& peer, std::shared_ptr<Lane> lane);  // a further connection
  void shut(const Error& why);
  const Hello& own_hello() const { return options_.own; }

 private:
  friend class Stream;
  std::optional<OutFrame> next_frame(const Lane& lane) override;
  Result<std::optional<std::span<std::byte>>> data_begins(const FrameHeader& header,
                                                          std::span<const std::byte> head) override;
  Status data_landed(const FrameHeader& header) override;
  Status word(const FrameHeader& header, std::span<const std::byte> words) override;
  void over(Lane& lane, const Error& why) override;

  MuxHooks hooks();
  std::shared_ptr<StreamEvents> accept(StreamId id, std::string_view purpose);
  void run(std::shared_ptr<Lane> lane);
  void wake();
  void tick_later();
  void on_thread(std::function<void()> order) SHOAL_EXCLUDES(orders_mutex_);
  void carry_out() SHOAL_EXCLUDES(orders_mutex_);

  const std::shared_ptr<net::io_context> io_;
  const Options options_;
  Mux mux_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::optional<identity::PeerName> peer_;
  std::atomic<std::size_t> lane_count_{0};
  net::steady_timer ticker_;
  bool waking_ = false;
  std::atomic<bool> is_over_{false};

  Mutex orders_mutex_;
  // Called and not carried out. Each user bounds what he calls for: by the queue of a stream, and
  // by what has come.
  std::deque<std::function<void()>> orders_ SHOAL_GUARDED_BY(orders_mutex_);
  bool posted_ SHOAL_GUARDED_BY(orders_mutex_) = false;  // carry_out() will come
};

}  // namespace shoal::wire::stream
