// See reduce_link.h.
#include "outer_opt/transport/reduce_link.h"

#include <charconv>
#include <sstream>
#include <utility>

#include "outer_opt/transport/reduce_call.h"
#include "wire/stream/blocking_stream.h"

namespace shoal::outer_opt {
namespace {

constexpr std::string_view kAnswer = "SHAN";  // what the head of an answer begins with

bool is_answer(std::span<const std::byte> head) {
  return wire::stream::to_text(head).starts_with(kAnswer);
}

}  // namespace

// ---- what is said in text

std::string to_purpose(const StreamName& name) {
  std::ostringstream text;
  const RoundKey& key = name.key.key;
  text << kReducePurpose << ' ' << name.from.n << ' ' << key.job.n << ' ' << key.epoch << ' '
       << key.round << ' ' << name.key.attempt;
  if (!name.memory.empty()) text << ' ' << name.memory;
  return text.str();
}

std::optional<StreamName> parse_purpose(std::string_view purpose) {
  std::istringstream text{std::string(purpose)};
  std::string kind, rest;
  StreamName name;
  RoundKey& key = name.key.key;
  const bool complete =
      text >> kind >> name.from.n >> key.job.n >> key.epoch >> key.round >> name.key.attempt &&
      kind == kReducePurpose;
  text >> name.memory;
  if (!complete || text >> rest || to_purpose(name) != purpose) return std::nullopt;
  return name;
}

// "17 the line to replica 17 broke": a number, 0 for nobody, then a sentence.
Error to_cancel(const StreamEnd& end) {
  return {Code::kCancelled, std::to_string(end.lost.n) + " " + end.detail, "", ""};
}

StreamEnd parse_cancel(const Error& error) {
  const char* begin = error.message.data();
  const char* end = begin + error.message.size();
  std::uint64_t lost = 0;
  const auto [after, failure] = std::from_chars(begin, end, lost);
  if (error.code != Code::kCancelled || failure != std::errc() || after == end || *after != ' ') {
    return {false, {}, error.message};
  }
  return {false, ReplicaId(lost), {after + 1, end}};
}

// ---- its life

Link::Link(std::shared_ptr<ReduceCall> call, int peer)
    : dialed(true), peer(peer), call_(std::move(call)) {}

Link::Link(std::shared_ptr<wire::stream::Stream> stream, StreamName name,
           std::function<void(Link&)> forget)
    : dialed(false),
      is_open(true),
      answered(true),
      stream_(std::move(stream)),
      name_(std::move(name)),
      forget_(std::move(forget)) {}

bool Link::is_closed() const {
  const MutexLock lock(mutex_);
  return is_closed_;
}

void Link::open(wire::stream::Pair& pair, const StreamName& name, Duration limit) {
  (void)pair.open(
      to_purpose(name),
      [this](std::shared_ptr<wire::stream::Stream> stream) {
        stream_ = std::move(stream);
        return shared_from_this();
      },
      limit);
  tell([self = shared_from_this(), offers = !name.memory.empty()](ReduceCall& call) {
    call.on_open(self, offers);
  });
}

void Link::not_dialed(const Error& why) { closed(why); }

void Link::join(const std::shared_ptr<ReduceCall>& call, Duration limit) {
  stream_->set_limit(limit);
  const MutexLock lock(mutex_);
  if (is_closed_) return call->on_closed(shared_from_this(), end_);
  call_ = call;
  for (const Event& event : std::exchange(early_, {})) event(*call);
}

void Link::refuse(const StreamEnd& why) { stream_->cancel(to_cancel(why)); }

// ---- what the call has to say

void Link::answer(const std::string& memory) {
  has_answered_ = true;
  wire::stream::OutMessage message;
  message.head = wire::stream::to_bytes(std::string(kAnswer) + memory);
  stream_->send(std::move(message));
}

void Link::send(OutgoingMessage outgoing) {
  wire::stream::OutMessage message;
  message.head = std::move(outgoing.head);
  if (!outgoing.body.empty()) message.body = {outgoing.body};
  auto buffer = std::make_shared<Buffer>(std::move(outgoing.buffer));
  message.done = [self = shared_from_this(), buffer, size = outgoing.size](bool sent) {
    self->tell([self, buffer, size, sent](ReduceCall& call) {
      call.on_sent(self, sent ? size : 0, std::move(*buffer));
    });
  };
  stream_->send(std::move(message));
}

void Link::release(std::size_t body) { stream_->release(body); }

void Link::end() { stream_->end(); }

void Link::cancel(const StreamEnd& why) { stream_->cancel(to_cancel(why)); }

pid_t Link::process() const { return stream_->pair()->process(); }

std::size_t Link::connections() const { return stream_->pair()->lanes(); }

// ---- events

void Link::tell(Event event) {
  const MutexLock lock(mutex_);
  if (call_)
    event(*call_);
  else if (!is_closed_)
    early_.push_back(std::move(event));
}

// Before it has been answered. After that it may say more at once, before there is a call here.
bool Link::says_too_much() { return !dialed && !has_answered_ && ++early_frames_ > kEarlyFrames; }

Buffer Link::buffer_of(std::size_t size) {
  std::shared_ptr<ReduceCall> call;
  {
    const MutexLock lock(mutex_);
    call = call_;
  }
  return enlarged(call ? call->take_buffer() : Buffer(), size);
}

std::optional<std::span<std::byte>> Link::place(std::span<const std::byte> head, std::size_t size) {
  if (dialed && is_answer(head) && size == 0) return std::span<std::byte>();
  const auto frame = ReceivedFrame::read(head, size, receives());
  if (!frame.ok()) {
    tell([self = shared_from_this(), why = frame.error()](ReduceCall& call) {
      call.on_bad_frame(self, why);
    });
    return std::nullopt;
  }
  if (says_too_much()) return std::nullopt;
  if (size == 0) return std::span<std::byte>();
  Buffer body = buffer_of(size);
  const auto where = std::span(body).first(size);
  placed_[where.data()] = std::move(body);
  return where;
}

void Link::arrived(std::span<const std::byte> head, std::span<std::byte> body) {
  if (dialed && is_answer(head)) {
    std::string token(wire::stream::to_text(head).substr(kAnswer.size()));
    stream_->release(0);
    return tell([self = shared_from_this(), token = std::move(token)](ReduceCall& call) {
      call.on_answer(self, token);
    });
  }
  auto frame =
      std::make_shared<ReceivedFrame>(ReceivedFrame::read(head, body.size(), receives()).value());
  if (!body.empty()) frame->take_body(std::move(placed_.extract(body.data()).mapped()));
  tell([self = shared_from_this(), frame](ReduceCall& call) {
    call.on_frame(self, std::move(*frame));
  });
}

void Link::ended() {
  tell([self = shared_from_this()](ReduceCall& call) { call.on_ended(self); });
}

// Streams that wait for an attempt are dropped; a call releases this link by itself.
void Link::closed(const std::optional<Error>& error) {
  placed_.clear();
  const auto self = shared_from_this();
  const StreamEnd end = error ? parse_cancel(*error) : StreamEnd{true, {}, ""};
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
    end_ = end;
    early_.clear();
    if (call_) {
      call_->on_closed(self, end);
      call_.reset();
      return;
    }
  }
  if (forget_) forget_(*this);
}

}  // namespace shoal::outer_opt
