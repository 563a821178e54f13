// The driver of one attempt; reduce_call.h says how it works.
#include "outer_opt/transport/reduce_call.h"

#include <algorithm>
#include <utility>

#include "outer_opt/core/step/momentum_shards.h"

namespace shoal::outer_opt {
namespace {

constexpr auto kTick = std::chrono::milliseconds(250);
// A peer that owes us a frame and says nothing for this long, plus the time the frame takes on a
// line of kSlowBytesPerSecond, is lost. A frozen process is found earlier, by the keep-alive.
// One that may still be fetching its part of the outer momentum gets the time for that, too.
constexpr double kSilence = 8, kSlowBytesPerSecond = 64 << 10;

double patience_with(const ReducePlan& plan, std::int64_t frame_values) {
  const auto frame =
      static_cast<double>(encoded_size(plan.codec, static_cast<std::size_t>(frame_values)));
  const double momentum = sizeof(float) * static_cast<double>(most_missing(plan));
  return kSilence + (frame + momentum) / kSlowBytesPerSecond;
}

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

}  // namespace

ReduceCall::ReduceCall(std::unique_ptr<ReduceSession> session, std::int64_t frame_values,
                       Workers& workers, std::vector<Buffer> buffers)
    : patience_s_(patience_with(session->plan(), frame_values)),
      workers_(workers),
      session_(std::move(session)),
      news_(session_->plan().members.size()),
      buffers_(std::move(buffers)) {}

int ReduceCall::member(ReplicaId replica) const {
  const auto& members = session_->plan().members;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].replica == replica) return static_cast<int>(i);
  }
  return -1;
}

std::string ReduceCall::name_of(const Link& link) const {
  return to_string(session_->plan().members[link.peer].replica);
}

// Whether more frames are to come.
bool ReduceCall::still_owes(const Link& link) const {
  return session_->frames_left(link.peer, link.receives()) > std::ssize(link.frames);
}

bool ReduceCall::attach(const LinkPtr& link) {
  const MutexLock lock(mutex_);
  bool& came = news_[link->peer].came[link->dialed ? 1 : 0];
  if (over() || came || news_[link->peer].lost) return false;
  came = true;
  link->heard = Clock::now();
  links_.push_back(link);
  return true;
}

void ReduceCall::join(const LinkPtr& link) {
  link->peer = member(link->name().from);
  if (link->peer < 0 || link->peer == session_->self()) {
    return link->refuse(
        {false, {}, to_string(link->name().from) + " is not a member of this attempt"});
  }
  if (link->process() > 0) {
    link->peer_memory = wire::PeerMemory::open(link->process(), link->name().memory);
  }
  link->answer(link->peer_memory ? memory_token() : "");
  if (!attach(link)) return link->refuse(refusal());
  link->join(shared_from_this(), session_->plan().time_limit + kStreamGrace);
  wake();
}

// ---- steps

// More than a thread each would find nothing to do.
void ReduceCall::wake() {
  if (queued_.fetch_add(1) >= workers_.threads()) {
    queued_.fetch_sub(1);
    return;
  }
  workers_.post([self = shared_from_this()] {
    self->queued_.fetch_sub(1);
    self->drive();
  });
}

void ReduceCall::drive() {
  const MutexLock lock(mutex_);
  while (step()) {
  }
  if (all_ended() || over()) changed_.notify_all();
}

// Does one thing that can be done now. The lock may be left meanwhile, so links_ is looked at
// again.
bool ReduceCall::step() {
  if (!over() && do_local_work()) return true;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const LinkPtr link = links_[i];
    if (!over() && (take_frame(link) || send_next(link))) return true;
    if (settle(link)) return true;
  }
  return false;
}

bool ReduceCall::do_local_work() {
  const auto work = session_->local_work();
  if (!work) return false;
  ++working_;
  WorkResult result;
  {
    const MutexUnlock meanwhile(mutex_);
    result = session_->run(*work, {});
  }
  --working_;
  session_->finish(*work, result);
  return true;
}

std::unique_ptr<EntropyCoder> ReduceCall::take_coder() {
  if (coders_.empty()) return std::make_unique<EntropyCoder>();
  auto coder = std::move(coders_.back());
  coders_.pop_back();
  return coder;
}

Buffer ReduceCall::take_one() {
  if (buffers_.empty()) return {};
  Buffer buffer = std::move(buffers_.back());
  buffers_.pop_back();
  return buffer;
}

Buffer ReduceCall::take_buffer() {
  const MutexLock lock(mutex_);
  return take_one();
}

std::vector<Buffer> ReduceCall::take_buffers() {
  const MutexLock lock(mutex_);
  return std::exchange(buffers_, {});
}

void ReduceCall::give_back(std::vector<Buffer> buffers) {
  for (Buffer& buffer : buffers) buffers_.push_back(std::move(buffer));
}

// Gets at the payload of the first frame, which came by reference or entropy coded.
bool ReduceCall::open(const LinkPtr& link) {
  ReceivedFrame frame = std::move(link->frames.front());
  const bool expand = frame.must_expand();
  std::unique_ptr<EntropyCoder> coder;
  if (expand) coder = take_coder();
  Buffer buffer = take_one();
  link->opening = true;
  ++working_;
  Status status;
  {
    const MutexUnlock meanwhile(mutex_);
    status = expand ? frame.expand(*coder, std::move(buffer))
                    : frame.fetch(*link->peer_memory, std::move(buffer));
  }
  --working_;
  link->opening = false;
  if (coder) coders_.push_back(std::move(coder));
  return opened(*link, expand, std::move(frame), status);
}

// Before the session admits the frame: one that cannot be read any more has not come.
bool ReduceCall::opened(Link& link, bool expanded, ReceivedFrame frame, const Status& status) {
  if (status.ok()) {
    if (!expanded) read_directly_ += frame.header().payload_size;
    link.frames.front() = std::move(frame);
    return true;
  }
  if (expanded) {
    bad_frame(link, status.error());
    return true;
  }
  link.broken = true;
  // Once a stream has ended, nothing will tell any more whose fault it was.
  if (status.error().code == Code::kNotFound || link.over) {
    lost(link.peer, name_of(link) + ": " + status.error().message);
  }
  return true;
}

bool ReduceCall::take_frame(const LinkPtr& link) {
  if (link->frames.empty() || link->opening || is_given_up(*link)) return false;
  if (link->frames.front().must_fetch() || link->frames.front().must_expand()) return open(link);
  const auto work = session_->admit(link->peer, link->frames.front().header());
  if (!work) return over();  // a frame that breaks the session is news, too
  ReceivedFrame frame = std::move(link->frames.front());
  link->frames.pop_front();
  link->heard = Clock::now();
  ++working_;
  WorkResult result;
  {
    const MutexUnlock meanwhile(mutex_);
    const std::span<const std::byte> payload[] = {frame.payload()};
    result = session_->run(*work, payload);
    link->release(frame.body_size());
  }
  --working_;
  give_back(frame.give_back());
  session_->finish(*work, result);
  return true;
}

bool ReduceCall::may_send(const Link& link) const {
  if (!link.is_open || link.asking || link.writes_ended || link.over) return false;
  // One thread at a time makes messages of a stream, so that they go in their order.
  if (is_given_up(link) || link.starting > 0) return false;
  if (!link.answered && link.pulled >= kEarlyFrames) return false;
  return link.sending < sends_max(link);
}

int ReduceCall::sends_max(const Link& link) { return 1 + 2 * static_cast<int>(link.connections()); }

bool ReduceCall::send_next(const LinkPtr& link) {
  if (!may_send(*link)) return false;
  const auto frame = session_->next_frame(link->peer, link->sends());
  if (!frame) return false;
  ++link->pulled;
  ++link->sending;
  ++link->starting;
  ++working_;
  std::unique_ptr<EntropyCoder> coder;
  if (session_->plan().entropy_coding && !link->cross_memory) coder = take_coder();
  const SendTerms terms = {link->cross_memory, coder.get()};
  Buffer buffer = take_one();
  {
    const MutexUnlock meanwhile(mutex_);
    link->send(message_of(*session_, *frame, terms, std::move(buffer)));
  }
  if (coder) coders_.push_back(std::move(coder));
  --working_;
  --link->starting;
  return true;
}

// Brings a link towards its end: says that we have sent all, gives it up, or forgets one that is
// over.
bool ReduceCall::settle(const LinkPtr& link) {
  if (link->over) return let_go(link);
  if ((over() || is_given_up(*link)) && !link->cancelled) return give_up(link);
  if (!may_end(*link)) return false;
  link->writes_ended = true;
  const MutexUnlock meanwhile(mutex_);
  link->end();
  return true;
}

bool ReduceCall::is_given_up(const Link& link) const {
  return link.broken || news_[link.peer].lost;
}

// What has come of it may still be wanted.
bool ReduceCall::let_go(const LinkPtr& link) {
  const bool wanted = !over() && !is_given_up(*link) && !link->frames.empty();
  if (wanted || link->opening) return false;
  std::erase(links_, link);
  return true;
}

bool ReduceCall::give_up(const LinkPtr& link) {
  link->cancelled = true;
  if (!link->is_open) {  // on_open() ends it
    link->over = true;
    return true;
  }
  const StreamEnd why = over() ? failed_end() : StreamEnd{false, {}, "the stream broke"};
  const MutexUnlock meanwhile(mutex_);
  link->cancel(why);
  return true;
}

bool ReduceCall::may_end(const Link& link) const {
  if (over() || is_given_up(link) || link.writes_ended || !link.is_open || link.asking) {
    return false;
  }
  if (link.starting > 0 || !session_->sent_all(link.peer, link.sends())) return false;
  return has_fetched_all(link) && (link.dialed || link.read_ended);
}

bool ReduceCall::has_fetched_all(const Link& link) const {
  return !link.peer_memory || session_->received_all(link.peer, link.receives());
}

StreamEnd ReduceCall::failed_end() const {
  StreamEnd end;
  end.detail = "the attempt is over here";
  if (session_->state() != SessionState::kBroken) return end;
  const SessionFailure& failure = session_->failure();
  end.detail = failure.detail;
  if (failure.peer >= 0) end.lost = session_->plan().members[failure.peer].replica;
  return end;
}

StreamEnd ReduceCall::refusal() {
  const MutexLock lock(mutex_);
  return failed_end();
}

// ---- events

void ReduceCall::on_open(const LinkPtr& link, bool offers_memory) {
  {
    const MutexLock lock(mutex_);
    link->is_open = true;
    link->asking = offers_memory && !link->answered;
    if (link->cancelled) {  // too late; not from here, an event must not call back
      workers_.post([link, why = failed_end()] { link->cancel(why); });
      return;
    }
  }
  wake();
}

void ReduceCall::on_answer(const LinkPtr& link, const std::string& memory) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(link->answered, true)) return;
    if (!memory.empty()) link->peer_memory = wire::PeerMemory::open(link->process(), memory);
    link->asking = false;
    link->cross_memory = link->peer_memory.has_value();
  }
  wake();
}

void ReduceCall::on_frame(const LinkPtr& link, ReceivedFrame frame) {
  {
    const MutexLock lock(mutex_);
    link->heard = Clock::now();
    if (const Status fits = take_terms(*link, frame.header()); !fits.ok()) {
      bad_frame(*link, fits.error());
    } else {
      count_received(*link, frame.size());
      link->frames.push_back(std::move(frame));
    }
  }
  wake();
}

void ReduceCall::on_bad_frame(const LinkPtr& link, const Error& why) {
  {
    const MutexLock lock(mutex_);
    bad_frame(*link, why);
  }
  wake();
}

// What a frame says of memory that is read.
Status ReduceCall::take_terms(Link& link, const FrameHeader& header) {
  if (!link.dialed && header.cross_memory && link.peer_memory) link.cross_memory = true;
  if (!header.by_reference || link.cross_memory) return {};
  return Error{Code::kInvalidArgument,
               "a payload by reference, to a member that cannot read memory"};
}

void ReduceCall::count_received(const Link& link, std::size_t size) {
  const auto bytes = static_cast<std::int64_t>(size);
  received_ += bytes;
  if (!link.dialed) return;
  news_[link.peer].averages += bytes;
  news_[link.peer].averaged = link.heard;
}

void ReduceCall::on_sent(const LinkPtr& link, std::size_t bytes, Buffer buffer) {
  {
    const MutexLock lock(mutex_);
    --link->sending;
    sent_ += static_cast<std::int64_t>(bytes);
    if (!buffer.empty()) buffers_.push_back(std::move(buffer));
  }
  wake();
}

void ReduceCall::on_ended(const LinkPtr& link) {
  {
    const MutexLock lock(mutex_);
    link->heard = Clock::now();
    link->read_ended = true;
    if (still_owes(*link)) link->broken = true;
  }
  wake();
}

void ReduceCall::on_closed(const LinkPtr& link, const StreamEnd& end) {
  {
    const MutexLock lock(mutex_);
    link->over = true;
    if (link->is_open) connections_ += link->connections();
    const bool known = over() || session_->state() == SessionState::kDone;
    const bool whole =
        !still_owes(*link) && !link->broken && session_->sent_all(link->peer, link->sends());
    // What the others say of an end that we know already is no news.
    if (!known && !whole) blame(*link, end);
  }
  wake();
}

void ReduceCall::bad_frame(const Link& link, const Error& why) {
  session_->fail({ReduceFailure::kBadFrame, link.peer, name_of(link) + ": " + why.message});
}

// If the plan tolerates losing the sender, drop it regardless of whom it blames.
void ReduceCall::blame(const Link& link, const StreamEnd& end) {
  const std::string how = end.ok ? "it cancelled its stream" : end.detail;
  const std::string detail = name_of(link) + ": " + how;
  if (!link.dialed && session_->tolerates_loss(link.peer)) return lost(link.peer, detail);
  fail_by_name(end.lost, link.peer, detail);
}

void ReduceCall::lost(int peer, const std::string& detail) {
  news_[peer].lost = true;
  session_->peer_lost(peer, detail);
}

// The peer says whose fault its end is: the attempt cannot be completed, and that member is to
// blame.
void ReduceCall::fail_by_name(ReplicaId replica, int peer, const std::string& detail) {
  const int culprit = member(replica);
  if (culprit < 0 || culprit == session_->self()) return lost(peer, detail);
  session_->fail({ReduceFailure::kPeerLost, culprit, detail});
}

// ---- the watch

bool ReduceCall::all_ended() const {
  const bool ended = over() || session_->state() == SessionState::kDone;
  return ended && links_.empty() && working_ == 0;
}

void ReduceCall::look_for_silent_peers(Duration time_limit) {
  const ReduceSession& s = *session_;
  for (int peer = 0; peer < s.members(); ++peer) {
    if (peer == s.self()) continue;
    const std::string name = to_string(s.plan().members[peer].replica);
    if (!s.dials(peer, s.self())) continue;
    const bool came = news_[peer].came[0];
    if (!came && seconds_since(started_) > time_limit.seconds() / 2) {
      lost(peer, name + " did not come within half the time limit");
    }
    if (is_silent(peer)) lost(peer, name + " fell silent");
  }
}

// None of its frames waits here for its turn.
bool ReduceCall::is_silent(int peer) const {
  bool silent = false;
  for (const LinkPtr& link : links_) {
    if (link->peer != peer || link->dialed) continue;
    const bool has_frame = !link->frames.empty() || link->opening;
    if (has_frame || seconds_since(link->heard) <= patience_s_) return false;
    silent = true;
  }
  return silent && !session_->received_all(peer, FrameKind::kContribution);
}

void ReduceCall::watch(Duration time_limit, std::stop_token stop) {
  const std::stop_callback on_stop(stop, [this] {
    {
      const MutexLock lock(mutex_);
      cancelled_ = session_->state() == SessionState::kRunning;
      stopped_ = true;
    }
    drive();
  });
  drive();
  const MutexLock lock(mutex_);
  while (
      !changed_.wait_for(mutex_, kTick, [this]() SHOAL_REQUIRES(mutex_) { return all_ended(); })) {
    if (!over()) look_for_silent_peers(time_limit);
    if (!over() && seconds_since(started_) > time_limit.seconds()) {
      const int slowest = session_->slowest();
      if (session_->state() == SessionState::kDone)
        stopped_ = true;  // only the others are not
      else
        session_->fail({ReduceFailure::kTimeLimit, slowest, "the time limit passed"});
    }
    const MutexUnlock meanwhile(mutex_);
    drive();
  }
  ended_ = Clock::now();
}

std::optional<SessionFailure> ReduceCall::failure() {
  const MutexLock lock(mutex_);
  if (session_->state() != SessionState::kBroken) return std::nullopt;
  return session_->failure();
}

bool ReduceCall::cancelled() {
  const MutexLock lock(mutex_);
  return cancelled_;
}

ReduceStats ReduceCall::stats() {
  const MutexLock lock(mutex_);
  const std::chrono::duration<double> spent = ended_.value_or(Clock::now()) - started_;
  return {Bytes(sent_), Bytes(received_), spent.count()};
}

Bytes ReduceCall::read_directly() {
  const MutexLock lock(mutex_);
  return Bytes(read_directly_);
}

std::size_t ReduceCall::connections() {
  const MutexLock lock(mutex_);
  return connections_;
}

std::vector<ReduceCall::Flow> ReduceCall::flows() {
  const MutexLock lock(mutex_);
  std::vector<Flow> flows;
  for (std::size_t i = 0; i < news_.size(); ++i) {
    if (news_[i].averages == 0) continue;
    flows.push_back({session_->plan().members[i].replica, Bytes(news_[i].averages),
                     nanoseconds((news_[i].averaged - started_) / std::chrono::nanoseconds(1))});
  }
  return flows;
}

Digest ReduceCall::digest() {
  const MutexLock lock(mutex_);
  return session_->digest();
}

PartSeen ReduceCall::seen() {
  const MutexLock lock(mutex_);
  return session_->seen();
}

}  // namespace shoal::outer_opt
