// The driver of one attempt; reduce_call.h says how it works.
#include "outer_opt/transport/reduce_call.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "outer_opt/core/step/momentum_shards.h"

namespace shoal::outer_opt {
namespace {

constexpr auto kTick = std::chrono::milliseconds(250);
constexpr Duration kReturnLimit = seconds(60);
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

ReduceCall::ReduceCall(std::unique_ptr<ReduceSession> session, std::int64_t frame_values)
    : patience_s_(patience_with(session->plan(), frame_values)),
      session_(std::move(session)),
      news_(session_->plan().members.size()) {}

int ReduceCall::member(ReplicaId replica) const {
  const auto& members = session_->plan().members;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].replica == replica) return static_cast<int>(i);
  }
  return -1;
}

bool ReduceCall::find(int peer, bool dialled) const {
  return std::ranges::any_of(
      links_, [&](const Link* l) { return l->peer == peer && l->dialled == dialled; });
}

// Whether more frames are to come over this lane.
bool ReduceCall::still_owes(const Link& link) const {
  const std::int64_t next = lanes_of(link).admitted, count = link.lane.count;
  const std::int64_t until_its_turn = ((link.lane.index - next) % count + count) % count;
  return until_its_turn < session_->frames_left(link.peer, link.receives());
}

bool ReduceCall::admit_link(const Link& link) {
  Lanes& lanes = lanes_of(link);
  const std::uint32_t bit = 1u << link.lane.index;
  if (over() || (lanes.seen & bit) != 0) return false;
  if (lanes.count != 0 && lanes.count != link.lane.count) return false;
  lanes.count = link.lane.count;
  lanes.seen |= bit;
  return true;
}

bool ReduceCall::attach(Link* link) {
  {
    const MutexLock lock(mutex_);
    if (!admit_link(*link)) return false;
    link->heard = Clock::now();
    link->reading = true;
    ++link->starting;
    links_.push_back(link);
  }
  link->start_read();
  {
    const MutexLock lock(mutex_);
    --link->starting;
  }
  drive();
  return true;
}

// ---- steps

void ReduceCall::drive() {
  const MutexLock lock(mutex_);
  while (step()) {
  }
  if (over() && !over_since_) over_since_ = Clock::now();
  if (all_ended() || over()) changed_.notify_all();
}

// Does one thing that can be done now. The lock may be left meanwhile, so links_ is looked at anew.
bool ReduceCall::step() {
  if (!over() && do_local_work()) return true;
  for (Link* link : links_) {
    if (link->finished) continue;
    if (!over() && (take_pending(link) || send_next(link))) return true;
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

// Gets at the payload of a frame that came by reference or entropy coded.
bool ReduceCall::open(Link* link) {
  const bool expand = link->pending->must_expand();
  std::unique_ptr<EntropyCoder> coder;
  if (expand) coder = take_coder();
  std::vector<std::byte> buffer;
  if (!buffers_.empty()) {
    buffer = std::move(buffers_.back());
    buffers_.pop_back();
  }
  link->opening = true;
  ++link->starting;
  ++working_;
  Status status;
  {
    const MutexUnlock meanwhile(mutex_);
    status = expand ? link->pending->expand(*coder, std::move(buffer))
                    : link->pending->fetch(*link->peer_memory, std::move(buffer));
  }
  --working_;
  --link->starting;
  link->opening = false;
  if (coder) coders_.push_back(std::move(coder));
  return opened(link, expand, status);
}

// Before the session admits the frame: one that cannot be read any more has not come.
bool ReduceCall::opened(Link* link, bool expanded, const Status& status) {
  if (status.ok()) {
    if (!expanded) read_directly_ += link->pending->header().payload_size;
    return true;
  }
  if (expanded) {
    const std::string name = to_string(session_->plan().members[link->peer].replica);
    session_->fail({ReduceFailure::kBadFrame, link->peer, name + ": " + status.error().message});
    return true;
  }
  link->broken = true;
  link->pending.reset();
  if (status.error().code == Code::kNotFound) {
    const std::string name = to_string(session_->plan().members[link->peer].replica);
    lost(link->peer, name + ": " + status.error().message);
  }
  return true;
}

bool ReduceCall::take_pending(Link* link) {
  Lanes& lanes = lanes_of(*link);
  if (!link->pending || link->opening || !lanes.is_turn(*link, lanes.admitted)) return false;
  if (link->pending->must_fetch() || link->pending->must_expand()) return open(link);
  const auto work = session_->admit(link->peer, link->pending->header());
  if (!work) return over();  // a frame that breaks the session is news, too
  ++lanes.admitted;
  ReceivedFrame frame = std::move(*link->pending);
  link->pending.reset();
  link->reading = true;
  link->heard = Clock::now();
  ++link->starting;
  ++working_;
  WorkResult result;
  {
    const MutexUnlock meanwhile(mutex_);
    link->start_read();  // the next frame travels while this one is worked on
    result = session_->run(*work, frame.payload());
  }
  --working_;
  --link->starting;
  if (frame.has_buffer()) buffers_.push_back(frame.give_back());
  session_->finish(*work, result);
  return true;
}

bool ReduceCall::send_next(Link* link) {
  if (link->writing || link->writes_ended || link->broken || link->asking) return false;
  Lanes& lanes = lanes_of(*link);
  if (!lanes.is_turn(*link, lanes.pulled)) return false;
  const auto frame = session_->next_frame(link->peer, link->sends());
  if (!frame) return false;
  ++lanes.pulled;
  link->writing = true;
  ++link->starting;
  std::unique_ptr<EntropyCoder> coder;
  if (session_->plan().entropy_coding && !link->cross_memory) coder = take_coder();
  const SendTerms terms = {link->cross_memory, coder.get()};
  {
    const MutexUnlock meanwhile(mutex_);
    const OutgoingMessage message = message_of(*session_, *frame, terms, pins_);
    link->write_size = message.size;
    link->start_write(message.bytes);
  }
  if (coder) coders_.push_back(std::move(coder));
  --link->starting;
  return true;
}

// Brings a link towards its end: half-closes what we dialled, cancels what is stuck, finishes what
// is complete or given up.
bool ReduceCall::settle(Link* link) {
  const bool give_up = over() || link->broken;
  if (link->dialled && !give_up && !link->writing && !link->writes_ended && !link->asking &&
      session_->sent_all(link->peer, link->sends()) && has_fetched_all(link)) {
    link->writes_ended = link->writing = true;
    ++link->starting;
    {
      const MutexUnlock meanwhile(mutex_);
      link->end_writes();
    }
    --link->starting;
    return true;
  }
  if (give_up && !link->cancelled && may_cancel(link)) {
    link->cancelled = true;
    ++link->starting;
    const StreamEnd why = link->broken ? StreamEnd() : failed_end();
    {
      const MutexUnlock meanwhile(mutex_);
      link->cancel(why);
    }
    --link->starting;
    return true;
  }
  if (!may_finish(link)) return false;
  link->finished = true;
  const StreamEnd end = end_of(link);
  const MutexUnlock meanwhile(mutex_);
  link->finish(end);  // the link may be gone now
  return true;
}

bool ReduceCall::has_fetched_all(const Link* link) const {
  return !link->peer_memory || !still_owes(*link);
}

// A dialled stream can only be cancelled; an accepted one is, when its write does not come back: at
// once when there is no reason to tell.
bool ReduceCall::may_cancel(const Link* link) const {
  if (link->dialled) return true;
  if (!link->writing) return false;
  const bool has_reason = !link->broken && failed_end().lost;
  return !has_reason || (over_since_ && Clock::now() - *over_since_ >= kTellLimit);
}

bool ReduceCall::may_finish(const Link* link) const {
  if (link->starting > 0 || link->writing) return false;
  if (link->dialled) {
    const bool ended = (link->read_ended && link->writes_ended) || link->cancelled;
    return ended && !link->reading;
  }
  if (over() || link->broken) return true;
  return link->read_ended && session_->sent_all(link->peer, link->sends());
}

StreamEnd ReduceCall::end_of(const Link* link) const {
  StreamEnd end = failed_end();
  end.ok = !over() && !link->broken;
  return end;
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

void ReduceCall::on_answer(Link* link, std::optional<wire::PeerMemory> peer_memory) {
  {
    const MutexLock lock(mutex_);
    link->asking = false;
    link->cross_memory = peer_memory.has_value();
    link->peer_memory = std::move(peer_memory);
  }
  drive();
}

void ReduceCall::on_read(Link* link, bool ok, const grpc::ByteBuffer& message) {
  auto frame = ok ? ReceivedFrame::read(message, link->receives()) : Error{Code::kUnavailable, ""};
  {
    const MutexLock lock(mutex_);
    link->reading = false;
    link->heard = Clock::now();
    if (!ok) {
      link->read_ended = true;
      if (still_owes(*link)) link->broken = true;
    } else if (Status fits = frame.ok() ? take_terms(*link, frame->header()) : frame.error();
               !fits.ok()) {
      const std::string name = to_string(session_->plan().members[link->peer].replica);
      session_->fail({ReduceFailure::kBadFrame, link->peer, name + ": " + fits.error().message});
    } else {
      count_received(*link, frame->size());
      link->pending = std::move(*frame);
    }
  }
  drive();
}

// What a frame says of memory that is read.
Status ReduceCall::take_terms(Link& link, const FrameHeader& header) {
  if (!link.dialled && header.cross_memory && link.peer_memory) link.cross_memory = true;
  if (!header.by_reference || link.cross_memory) return {};
  return Error{Code::kInvalidArgument,
               "a payload by reference, to a member that cannot read memory"};
}

void ReduceCall::count_received(const Link& link, std::size_t size) {
  const auto bytes = static_cast<std::int64_t>(size);
  received_ += bytes;
  if (!link.dialled) return;
  news_[link.peer].averages += bytes;
  news_[link.peer].averaged = link.heard;
}

void ReduceCall::on_written(Link* link, bool ok) {
  {
    const MutexLock lock(mutex_);
    link->writing = false;
    if (ok) sent_ += static_cast<std::int64_t>(std::exchange(link->write_size, 0));
    if (!ok) link->broken = true;
  }
  drive();
}

void ReduceCall::on_closed(Link* link, const StreamEnd& end) {
  const auto keep = link->call;
  {
    const MutexLock lock(mutex_);
    std::erase(links_, link);
    const int peer = link->peer;
    const bool gave = !still_owes(*link);
    const std::string name = to_string(session_->plan().members[peer].replica);
    if (over() || session_->state() == SessionState::kDone) {
      // We know the end already; what the others say of it is no news.
    } else if (!link->dialled) {
      const bool whole = gave && session_->sent_all(peer, FrameKind::kAverage) && !link->broken;
      if (!whole && !hears_of(peer)) lost(peer, name + " broke off its stream");
      if (!whole && hears_of(peer)) gave_up(peer);
    } else if (end.given_up && !end.lost) {
      gave_up(peer);
    } else if (!end.ok || !gave) {
      fail_by_name(end.lost, peer, name + ": " + end.detail);
    } else if (news_[peer].broke) {
      lost(peer, name + " broke off its stream");
    }
  }
  drive();
}

// Who is told to go without a sender does so, whomever that sender blames.
void ReduceCall::told(ReplicaId from, ReplicaId replica, const std::string& detail) {
  {
    const MutexLock lock(mutex_);
    const int peer = member(from);
    if (peer < 0 || over() || session_->state() == SessionState::kDone) return;
    const std::string news = to_string(from) + ": " + detail;
    if (session_->tolerates_loss(peer))
      lost(peer, news);
    else
      fail_by_name(replica, peer, news);
  }
  drive();
}

// Whether another stream may yet say why `peer` went: one that we dialled, because only those bring
// reasons; where everybody is dialled, its own.
bool ReduceCall::hears_of(int peer) const {
  if (find(peer, true)) return true;
  const bool dialled = session_->dials(session_->self(), peer);
  return !dialled && !session_->tolerates_loss(peer) &&
         std::ranges::any_of(links_, [](const Link* link) { return link->dialled; });
}

void ReduceCall::gave_up(int peer) {
  if (!news_[peer].broke) news_[peer].broke = Clock::now();
}

void ReduceCall::lost(int peer, const std::string& detail) { session_->peer_lost(peer, detail); }

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

// Of the peers that gave up without a word, the first: it may have made the others give up.
void ReduceCall::believe_the_first() {
  int first = -1;
  for (int peer = 0; peer < session_->members(); ++peer) {
    const auto& broke = news_[peer].broke;
    if (broke && (first < 0 || *broke < *news_[first].broke)) first = peer;
  }
  if (first < 0 || Clock::now() - *news_[first].broke < kBelieve) return;
  lost(first, to_string(session_->plan().members[first].replica) + " broke off its stream");
  news_[first].broke.reset();
}

void ReduceCall::look_for_silent_peers(Duration time_limit) {
  const ReduceSession& s = *session_;
  believe_the_first();
  for (int peer = 0; peer < s.members(); ++peer) {
    if (peer == s.self()) continue;
    const std::string name = to_string(s.plan().members[peer].replica);
    if (!s.dials(peer, s.self())) continue;
    const bool came = news_[peer].lanes[0].count != 0;
    if (!came && seconds_since(started_) > time_limit.seconds() / 2) {
      lost(peer, name + " did not come within half the time limit");
    }
    if (is_silent(peer)) lost(peer, name + " fell silent");
  }
}

// On all lanes, and none of its frames waits here for its turn.
bool ReduceCall::is_silent(int peer) const {
  bool silent = false;
  for (const Link* link : links_) {
    if (link->peer != peer || link->dialled) continue;
    if (link->pending || seconds_since(link->heard) <= patience_s_) return false;
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

void ReduceCall::wait_returned() {
  readable_.end();
  SHOAL_CHECK(pins_.wait_returned(kReturnLimit), "the transport keeps memory of a finished reduce");
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

std::size_t ReduceCall::streams() {
  const MutexLock lock(mutex_);
  std::size_t count = 0;
  for (const PeerNews& news : news_) {
    for (const Lanes& lanes : news.lanes) count += std::popcount(lanes.seen);
  }
  return count;
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
