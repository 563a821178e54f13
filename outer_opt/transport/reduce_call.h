// One attempt at one member: drives a ReduceSession over its streams. Every callback of gRPC
// ends in drive(), which takes one step after another under the lock (admit a frame, do arithmetic,
// pull a frame to send, end a stream) and leaves the lock for the arithmetic and for the calls into
// gRPC, so several callbacks work at the same time. The thread that called reduce() only watches
// the time.
//
// Who is lost: a connection that breaks tells it, or a peer that gives up names the member that was
// the cause, an owner with the end of its stream, a sender by a call of its own. A peer whose
// stream merely ends may itself have lost somebody, of whom we shall hear another way; so it is
// called lost only after kBelieve, unless there is no other stream to hear from.
//
// Cross-memory attach: two members on one host that may read each other's memory leave payloads
// that are resident where they are. The dialling end offers it with the stream's opening, the
// accepting end tries and answers, the dialling end tries, and says in its frames that it could. A
// dialled stream is half-closed only when all that it was referred to was fetched, so nobody goes
// before the others have read; who must go early ends the permission (wait_returned()).
//
// Slow lines: with such a plan frames are entropy coded, unless they go by reference, and expanded
// where they arrive, before the session sees them.
//
// Lanes: on a long fat line one connection does not carry what the line does, so a pair may have
// several streams each way, each with a connection of its own (connections_for() in
// link_estimates.h says how many). They take turns: the n-th frame of a pair and direction goes
// over lane n modulo their number, so the receiver knows which lane has the frame that is due.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include <grpcpp/support/byte_buffer.h>

#include "outer_opt/core/reduce/reduce_session.h"
#include "outer_opt/transport/frame_message.h"
#include "outer_opt/transport/peer_node.h"
#include "threads/mutex.h"
#include "wire/cross_memory.h"
#include "wire/slices.h"

namespace shoal::outer_opt {

using Clock = std::chrono::steady_clock;

// Which attempt a stream belongs to.
struct AttemptKey {
  RoundKey key;
  std::int32_t attempt = 0;
  auto operator<=>(const AttemptKey&) const = default;
};

// How a stream ended.
struct StreamEnd {
  bool ok = false;
  bool given_up = false;  // cancelled by the other end, without a reason
  ReplicaId lost;         // the member that the other end blames
  std::string detail;
};

// Which of the streams of a pair and direction.
struct Lane {
  int index = 0, count = 1;
};
inline constexpr int kLanesMax = 16;  // more are refused

class ReduceCall;

// One stream to one peer. The methods are called by ReduceCall without its lock; the data are
// guarded by the lock and belong to ReduceCall.
class Link {
 public:
  virtual ~Link() = default;
  virtual void start_read() = 0;
  virtual void start_write(const grpc::ByteBuffer& message) = 0;
  virtual void end_writes() = 0;                  // dialled: half-close
  virtual void finish(const StreamEnd& end) = 0;  // the last call on this link; it ends on its own
  // Breaks the stream off. Dialled: tells the peer why, if `why` blames somebody else.
  virtual void cancel(const StreamEnd& why) = 0;

  std::shared_ptr<ReduceCall> call;
  int peer = -1;
  bool dialled = false;
  Lane lane;

  bool reading = false, writing = false;  // an operation is with gRPC
  std::size_t write_size = 0;             // of the message under way
  int starting = 0;                       // threads about to call a method
  bool read_ended = false, writes_ended = false, broken = false, cancelled = false,
       finished = false;
  std::optional<ReceivedFrame> pending;  // waiting for its turn
  bool opening = false;                  // getting at its payload, without the lock
  bool asking = false;        // dialled: whether the peer reads our memory is not known yet
  bool cross_memory = false;  // the two ends read each other's memory
  std::optional<wire::PeerMemory> peer_memory;  // of the peer
  Clock::time_point heard = Clock::now();

  FrameKind sends() const { return dialled ? FrameKind::kContribution : FrameKind::kAverage; }
  FrameKind receives() const { return dialled ? FrameKind::kAverage : FrameKind::kContribution; }
};

class ReduceCall : public std::enable_shared_from_this<ReduceCall> {
 public:
  ReduceCall(std::unique_ptr<ReduceSession> session, std::int64_t frame_values);

  const ReduceSession& session() const { return *session_; }
  int member(ReplicaId replica) const;  // -1: not a member

  // For streams that offer or answer to read this member's memory.
  std::string memory_token() const { return readable_.token(); }

  // Takes a link in; its `call`, `peer`, `dialled` and `lane` are set, and `asking` or
  // `peer_memory`. Refused (false) when the attempt is over or the peer had a stream of this
  // direction and lane already: the caller ends the link then, with refusal().
  bool attach(Link* link);
  StreamEnd refusal();

  // Watches until everything ended: done or broken, and all links closed. After that, and when
  // connections with unsent frames were dropped, wait_returned() waits until nobody reads the
  // caller's memory any more, here or in a process that reads it.
  void watch(Duration time_limit, std::stop_token stop);
  void wait_returned();
  std::optional<SessionFailure> failure();
  bool cancelled();
  Digest digest();
  PartSeen seen();
  // The messages of this attempt with what gRPC and HTTP/2 put before each of them; control frames
  // and what TCP sends again are not in. The time: until the last link closed, or now.
  ReduceStats stats();
  std::size_t streams();  // that came to be
  Bytes read_directly();

  // `from` gave up because of `lost`.
  void told(ReplicaId from, ReplicaId lost, const std::string& detail);

  // What owners sent back: they had to hear from us first, so none of it lay in a buffer when the
  // attempt began.
  struct Flow {
    ReplicaId from;
    Bytes received;
    Duration spent;  // from the beginning of the attempt to the last frame
  };
  std::vector<Flow> flows();

  // From the links' reactors. Asked once: what the peer said of its memory, nothing when it wants
  // none.
  void on_answer(Link* link, std::optional<wire::PeerMemory> peer_memory);
  void on_read(Link* link, bool ok, const grpc::ByteBuffer& message);
  void on_written(Link* link, bool ok);
  void on_closed(Link* link, const StreamEnd& end);  // the link goes away afterwards

 private:
  static constexpr auto kBelieve = std::chrono::seconds(2);
  // That a write under way may take before the reason for the end gets no chance to follow it.
  static constexpr auto kTellLimit = std::chrono::seconds(1);

  void drive() SHOAL_EXCLUDES(mutex_);
  bool step() SHOAL_REQUIRES(mutex_);
  void count_received(const Link& link, std::size_t size) SHOAL_REQUIRES(mutex_);
  static Status take_terms(Link& link, const FrameHeader& header);
  bool has_fetched_all(const Link* link) const SHOAL_REQUIRES(mutex_);
  bool do_local_work() SHOAL_REQUIRES(mutex_);
  bool admit_link(const Link& link) SHOAL_REQUIRES(mutex_);
  bool open(Link* link) SHOAL_REQUIRES(mutex_);
  bool opened(Link* link, bool expanded, const Status& status) SHOAL_REQUIRES(mutex_);
  std::unique_ptr<EntropyCoder> take_coder() SHOAL_REQUIRES(mutex_);
  bool take_pending(Link* link) SHOAL_REQUIRES(mutex_);
  bool send_next(Link* link) SHOAL_REQUIRES(mutex_);
  bool settle(Link* link) SHOAL_REQUIRES(mutex_);
  bool may_cancel(const Link* link) const SHOAL_REQUIRES(mutex_);
  bool may_finish(const Link* link) const SHOAL_REQUIRES(mutex_);
  StreamEnd end_of(const Link* link) const SHOAL_REQUIRES(mutex_);
  StreamEnd failed_end() const SHOAL_REQUIRES(mutex_);
  void lost(int peer, const std::string& detail) SHOAL_REQUIRES(mutex_);
  bool hears_of(int peer) const SHOAL_REQUIRES(mutex_);
  void gave_up(int peer) SHOAL_REQUIRES(mutex_);
  void believe_the_first() SHOAL_REQUIRES(mutex_);
  void fail_by_name(ReplicaId replica, int peer, const std::string& detail) SHOAL_REQUIRES(mutex_);
  bool over() const SHOAL_REQUIRES(mutex_) {
    return stopped_ || session_->state() == SessionState::kBroken;
  }
  bool all_ended() const SHOAL_REQUIRES(mutex_);
  void look_for_silent_peers(Duration time_limit) SHOAL_REQUIRES(mutex_);
  bool find(int peer, bool dialled) const SHOAL_REQUIRES(mutex_);
  bool still_owes(const Link& link) const SHOAL_REQUIRES(mutex_);
  bool is_silent(int peer) const SHOAL_REQUIRES(mutex_);

  const Clock::time_point started_ = Clock::now();
  const double patience_s_;  // with a peer that owes us a frame
  wire::SlicePins pins_;
  wire::ReadableMemory readable_;
  Mutex mutex_;
  CondVar changed_;
  // Asked and told with the lock; run() is for whoever was handed work, without it.
  const std::unique_ptr<ReduceSession> session_;
  std::vector<Link*> links_ SHOAL_GUARDED_BY(mutex_);
  // The streams of a pair in one direction.
  struct Lanes {
    int count = 0;                          // 0: none has come
    std::uint32_t seen = 0;                 // bits
    std::int64_t pulled = 0, admitted = 0;  // frames, over all of them
    bool is_turn(const Link& link, std::int64_t frame) const {
      return frame % count == link.lane.index;
    }
  };
  struct PeerNews {
    std::array<Lanes, 2> lanes;  // accepted, dialled
    std::optional<Clock::time_point>
        broke;                   // a stream of it ended early; it is not called lost yet
    std::int64_t averages = 0;   // bytes
    Clock::time_point averaged;  // the last of them
  };
  Lanes& lanes_of(const Link& link) SHOAL_REQUIRES(mutex_) {
    return news_[link.peer].lanes[link.dialled ? 1 : 0];
  }
  const Lanes& lanes_of(const Link& link) const SHOAL_REQUIRES(mutex_) {
    return news_[link.peer].lanes[link.dialled ? 1 : 0];
  }
  std::vector<PeerNews> news_ SHOAL_GUARDED_BY(mutex_);
  // For payloads that are fetched or expanded, and for the work on them; at most one of each for
  // every thread or link that was busy at a time.
  std::vector<std::vector<std::byte>> buffers_ SHOAL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<EntropyCoder>> coders_ SHOAL_GUARDED_BY(mutex_);
  int working_ SHOAL_GUARDED_BY(mutex_) = 0;  // threads in session_->run()
  // In bytes.
  std::int64_t sent_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::int64_t received_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::int64_t read_directly_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::optional<Clock::time_point> over_since_ SHOAL_GUARDED_BY(mutex_);
  std::optional<Clock::time_point> ended_ SHOAL_GUARDED_BY(mutex_);
  bool stopped_ SHOAL_GUARDED_BY(mutex_) = false;  // cancelled by the caller, or the time is up
  bool cancelled_ SHOAL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal::outer_opt
