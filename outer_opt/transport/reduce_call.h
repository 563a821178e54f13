// One attempt at one member: drives a ReduceSession over its streams. What happens to a stream
// comes from the node's I/O thread, is noted, and wakes one of the workers; a worker is in drive(),
// which takes one step after another under the lock (admit a frame, do arithmetic, pull a frame to
// send, end a stream) and leaves the lock for the arithmetic and for calls into streams, so several
// of them work at the same time. The thread that called reduce() only watches the time.
//
// Losses: a broken connection means that its member is lost; a peer that gives up names with its
// cancel the member that caused it.
//
// Cross-memory attach: two members on one host that may read each other's memory leave payloads
// that are resident where they are. The dialing end offers it with the stream's opening, the
// accepting end tries and answers, the dialing end tries, and says in its frames that it could.
// Either end ends a stream only when it has fetched all that it was referred to, so nobody goes
// before the others have read; who must go early ends the permission (lend_no_more()).
//
// Slow lines: with such a plan frames are entropy coded, unless they go by reference, and expanded
// where they arrive, before the session sees them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "outer_opt/core/reduce/reduce_session.h"
#include "outer_opt/transport/peer_node.h"
#include "outer_opt/transport/reduce_link.h"
#include "outer_opt/transport/workers.h"
#include "threads/mutex.h"
#include "wire/cross_memory.h"

namespace shoal::outer_opt {

using Clock = std::chrono::steady_clock;

class ReduceCall : public std::enable_shared_from_this<ReduceCall> {
 public:
  using LinkPtr = std::shared_ptr<Link>;

  // The workers outlive it. `buffers`: to begin with.
  ReduceCall(std::unique_ptr<ReduceSession> session, std::int64_t frame_values, Workers& workers,
             std::vector<Buffer> buffers);

  const ReduceSession& session() const { return *session_; }
  int member(ReplicaId replica) const;  // -1: not a member

  // For streams that offer or answer to read this member's memory.
  std::string memory_token() const { return readable_.token(); }

  // Takes a link in; its `peer` is set. Refused (false) when the attempt is over or the peer had a
  // stream of this direction already: the caller ends the link then, with refusal().
  bool attach(const LinkPtr& link);
  StreamEnd refusal();
  // A stream that a peer opened: attaches it and answers, or refuses it.
  void join(const LinkPtr& link);

  // Watches until everything ended: done or broken, and all links closed. Nothing of the caller's
  // memory is read by this process any more after that, and by no other one after lend_no_more().
  void watch(Duration time_limit, std::stop_token stop);
  void lend_no_more() { readable_.end(); }
  std::optional<SessionFailure> failure();
  bool cancelled();
  Digest digest();
  PartSeen seen();
  // The messages of this attempt with the headers of their pieces; words that open, end and grant,
  // what TLS adds and what TCP sends again are not in. The time: until the last link closed, or
  // now.
  ReduceStats stats();
  std::size_t connections();  // that carried it, to and from all peers
  Bytes read_directly();

  // What owners sent back: they had to hear from us first, so none of it lay in a buffer when the
  // attempt began.
  struct Flow {
    ReplicaId from;
    Bytes received;
    Duration spent;  // from the beginning of the attempt to the last frame
  };
  std::vector<Flow> flows();

  // From the links, in the node's I/O thread; none of them calls back.
  void on_open(const LinkPtr& link, bool offers_memory);
  void on_answer(const LinkPtr& link, const std::string& memory);
  void on_frame(const LinkPtr& link, ReceivedFrame frame);
  void on_bad_frame(const LinkPtr& link, const Error& why);
  void on_sent(const LinkPtr& link, std::size_t bytes, Buffer buffer);
  void on_ended(const LinkPtr& link);
  void on_closed(const LinkPtr& link, const StreamEnd& end);  // the last one
  Buffer take_buffer() SHOAL_EXCLUDES(mutex_);
  // All that are not in use, once everything ended.
  std::vector<Buffer> take_buffers() SHOAL_EXCLUDES(mutex_);

 private:
  // That one stream has to send at a time: the next are made while some are on their way. The
  // pieces of a message wait for the slowest connection, so there are more of both.
  static int sends_max(const Link& link);

  void wake();
  void drive() SHOAL_EXCLUDES(mutex_);
  bool step() SHOAL_REQUIRES(mutex_);
  void count_received(const Link& link, std::size_t size) SHOAL_REQUIRES(mutex_);
  Status take_terms(Link& link, const FrameHeader& header) SHOAL_REQUIRES(mutex_);
  bool has_fetched_all(const Link& link) const SHOAL_REQUIRES(mutex_);
  bool do_local_work() SHOAL_REQUIRES(mutex_);
  bool open(const LinkPtr& link) SHOAL_REQUIRES(mutex_);
  bool opened(Link& link, bool expanded, ReceivedFrame frame, const Status& status)
      SHOAL_REQUIRES(mutex_);
  std::unique_ptr<EntropyCoder> take_coder() SHOAL_REQUIRES(mutex_);
  Buffer take_one() SHOAL_REQUIRES(mutex_);
  void give_back(std::vector<Buffer> buffers) SHOAL_REQUIRES(mutex_);
  bool take_frame(const LinkPtr& link) SHOAL_REQUIRES(mutex_);
  bool may_send(const Link& link) const SHOAL_REQUIRES(mutex_);
  bool send_next(const LinkPtr& link) SHOAL_REQUIRES(mutex_);
  bool settle(const LinkPtr& link) SHOAL_REQUIRES(mutex_);
  bool give_up(const LinkPtr& link) SHOAL_REQUIRES(mutex_);
  bool is_given_up(const Link& link) const SHOAL_REQUIRES(mutex_);
  bool may_end(const Link& link) const SHOAL_REQUIRES(mutex_);
  bool let_go(const LinkPtr& link) SHOAL_REQUIRES(mutex_);
  StreamEnd failed_end() const SHOAL_REQUIRES(mutex_);
  std::string name_of(const Link& link) const;
  void bad_frame(const Link& link, const Error& why) SHOAL_REQUIRES(mutex_);
  void blame(const Link& link, const StreamEnd& end) SHOAL_REQUIRES(mutex_);
  void lost(int peer, const std::string& detail) SHOAL_REQUIRES(mutex_);
  void fail_by_name(ReplicaId replica, int peer, const std::string& detail) SHOAL_REQUIRES(mutex_);
  bool over() const SHOAL_REQUIRES(mutex_) {
    return stopped_ || session_->state() == SessionState::kBroken;
  }
  bool all_ended() const SHOAL_REQUIRES(mutex_);
  void look_for_silent_peers(Duration time_limit) SHOAL_REQUIRES(mutex_);
  bool still_owes(const Link& link) const SHOAL_REQUIRES(mutex_);
  bool is_silent(int peer) const SHOAL_REQUIRES(mutex_);

  const Clock::time_point started_ = Clock::now();
  const double patience_s_;  // with a peer that owes us a frame
  Workers& workers_;
  std::atomic<int> queued_{0};  // of drive(), not begun
  wire::ReadableMemory readable_;
  Mutex mutex_;
  CondVar changed_;
  // Asked and told with the lock; run() is called without it, by the thread that was handed work.
  const std::unique_ptr<ReduceSession> session_;
  std::vector<LinkPtr> links_ SHOAL_GUARDED_BY(mutex_);
  struct PeerNews {
    std::array<bool, 2> came{};  // a stream that it opened, that we dialed
    bool lost = false;           // the attempt continues without it, if at all
    std::int64_t averages = 0;   // bytes
    Clock::time_point averaged;  // the last of them
  };
  std::vector<PeerNews> news_ SHOAL_GUARDED_BY(mutex_);
  // For payloads that came, are fetched or expanded, or wait to be sent, and for the work on them;
  // at most as many as were in use at a time, and those to begin with.
  std::vector<Buffer> buffers_ SHOAL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<EntropyCoder>> coders_ SHOAL_GUARDED_BY(mutex_);
  int working_ SHOAL_GUARDED_BY(mutex_) = 0;  // threads at the caller's memory
  // In bytes.
  std::int64_t sent_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::int64_t received_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::int64_t read_directly_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::size_t connections_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::optional<Clock::time_point> ended_ SHOAL_GUARDED_BY(mutex_);
  bool stopped_ SHOAL_GUARDED_BY(mutex_) = false;  // cancelled by the caller, or the time is up
  bool cancelled_ SHOAL_GUARDED_BY(mutex_) = false;
};

}  // namespace shoal::outer_opt
