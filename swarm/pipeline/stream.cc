// See stream.h. Calls into wire/stream only leave an order there, so they are made with the lock;
// the owner is called without it.
#include "swarm/pipeline/stream.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/check.h"
#include "threads/clock.h"
#include "wire/stream/blocking_stream.h"

namespace shoal::swarm {
namespace {

// Credits bound what is under way far below this; a peer that stopped reading shows here.
constexpr std::size_t kMessagesWaitingMax = 1 << 16;
constexpr int kSendingMax = 16;                // messages that are with wire/stream
constexpr std::size_t kAtOnceMax = 256 << 10;  // bytes of a frame that the I/O thread reads itself
// The other end answers when its replica is there, or refuses (pipeline_service.h).
constexpr Duration kAnswerMax = seconds(10);
// A stream lasts as long as its replicas do; should one be forgotten, it ends like any other loss.
constexpr Duration kLifeMax = seconds(30 * 24 * 3600);
constexpr std::string_view kAnswer = "SHPA";  // the head of the first message of the other end

Error bad(const std::string& what) { return {Code::kInvalidArgument, what, "", ""}; }

// What the first message of a body has of it.
std::size_t first_part(std::size_t size) { return size == 0 ? 0 : (size - 1) % kMessageBytes + 1; }

}  // namespace

// ---- its name

std::string to_purpose(const StreamName& name) {
  std::ostringstream text;
  text << kPipelinePurpose << ' ' << name.protocol << ' ' << name.job.n << ' ' << name.epoch << ' '
       << name.from.n << ' ' << name.to.n;
  return text.str();
}

std::optional<StreamName> parse_purpose(std::string_view purpose) {
  std::istringstream text{std::string(purpose)};
  std::string word;
  StreamName name;
  text >> word >> name.protocol >> name.job.n >> name.epoch >> name.from.n >> name.to.n;
  if (!text || to_purpose(name) != purpose) return std::nullopt;
  return name;
}

// ---- its life

Stream::Stream(const StreamContext& context, const StreamName& name)
    : context_(context), name_(name), dialed_(true) {}

Stream::Stream(const StreamContext& context, const StreamName& name,
               std::shared_ptr<wire::stream::Stream> stream, std::function<void(Stream&)> forget)
    : context_(context),
      name_(name),
      dialed_(false),
      forget_(std::move(forget)),
      stream_(std::move(stream)) {}

void Stream::dial(const std::string& address, std::shared_ptr<StreamOwner> owner) {
  {
    const MutexLock lock(mutex_);
    body_max_ = owner->body_max();
    owner_ = std::move(owner);
  }
  context_.peers->dial_replica(
      address, {name_.job, name_.epoch, name_.to},
      [self = shared_from_this()](const Result<std::shared_ptr<wire::stream::Pair>>& pair) {
        self->joined(pair);
      });
}

void Stream::joined(const Result<std::shared_ptr<wire::stream::Pair>>& pair) {
  if (!pair.ok()) return end(pair.error().message);
  if (!context_.peers->is_replica(**pair, {name_.job, name_.epoch, name_.to})) {
    (*pair)->close();
    return end("another process answers for " + to_string(name_.to));
  }
  pair_ = *pair;
  const auto stream = pair_->open(
      to_purpose(name_), [this](const auto&) { return shared_from_this(); }, kAnswerMax);
  const MutexLock lock(mutex_);
  stream_ = stream;
  if (over_) stream_->cancel({Code::kCancelled, "the replica has closed the stream", "", ""});
}

void Stream::answered() {
  answered_ = true;
  std::shared_ptr<StreamOwner> owner;
  {
    const MutexLock lock(mutex_);
    open_ = true;
    owner = owner_;
    stream_->set_limit(kLifeMax);
    stream_->release(0);
  }
  if (owner) owner->opened(*this);
}

void Stream::start(std::shared_ptr<StreamOwner> owner) {
  {
    const MutexLock lock(mutex_);
    if (!over_) {
      open_ = true;
      body_max_ = owner->body_max();
      owner_ = std::move(owner);
      stream_->set_limit(kLifeMax);
      wire::stream::OutMessage answer;
      answer.head = wire::stream::to_bytes(kAnswer);
      stream_->send(std::move(answer));
      return;
    }
  }
  owner->ended(*this, "the peer cancelled the stream", false);
}

void Stream::refuse(const Error& why) {
  const MutexLock lock(mutex_);
  over_ = true;
  if (stream_) stream_->cancel(why);
}

void Stream::break_off(const std::string& why, bool bad_frame) {
  const MutexLock lock(mutex_);
  if (over_) return;
  over_ = true;
  why_ = why;
  bad_frame_ = bad_frame;
  queue_.clear();
  if (stream_) stream_->cancel({Code::kCancelled, why, "", ""});
}

void Stream::close() {
  std::shared_ptr<StreamOwner> owner;  // released without the lock
  const MutexLock lock(mutex_);
  over_ = true;
  queue_.clear();
  owner = std::exchange(owner_, nullptr);
  if (stream_) stream_->cancel({Code::kCancelled, "the replica has closed the stream", "", ""});
}

void Stream::ended() { break_off("the peer ended the stream", false); }

void Stream::closed(const std::optional<Error>& error) {
  if (pair_) std::exchange(pair_, nullptr)->close();
  incoming_.reset();
  end(error ? error->message : "the peer ended the stream");
}

void Stream::end(const std::string& why) {
  std::shared_ptr<StreamOwner> owner;
  std::string reason;
  bool bad_frame = false;
  {
    const MutexLock lock(mutex_);
    over_ = true;
    queue_.clear();
    stream_.reset();
    owner = std::exchange(owner_, nullptr);
    reason = why_.empty() ? why : why_;
    bad_frame = bad_frame_;
  }
  if (owner) return owner->ended(*this, reason, bad_frame);
  if (forget_) forget_(*this);
}

// ---- sending

void Stream::send(const FrameHeader& header, SharedBytes body) {
  const std::size_t size = body ? body->size() : 0;
  SHOAL_CHECK(size == header.body_size);
  const auto head = encode_header(header);
  const std::size_t first = first_part(size);
  const auto part = [&](std::size_t at, std::size_t length) {
    return length == 0 ? std::span<const std::byte>() : std::span(*body).subspan(at, length);
  };
  bool full = false;
  {
    const MutexLock lock(mutex_);
    if (over_) return;
    queue_.push_back({{head.begin(), head.end()}, body, part(0, first)});
    for (std::size_t at = first; at < size; at += kMessageBytes) {
      queue_.push_back({{}, body, part(at, kMessageBytes)});
    }
    counters_.sent += static_cast<std::int64_t>(head.size() + size);
    counters_.forwards += header.kind == FrameKind::kForward;
    full = queue_.size() > kMessagesWaitingMax;
    if (!full) send_what_waits();
  }
  if (full) break_off("the peer does not take what is sent to it", false);
}

void Stream::send_what_waits() {
  while (open_ && stream_ && sending_ < kSendingMax && !queue_.empty()) {
    Outgoing next = std::move(queue_.front());
    queue_.pop_front();
    ++sending_;
    wire::stream::OutMessage message;
    message.head = std::move(next.head);
    if (!next.body.empty()) message.body = {next.body};
    message.done = [self = shared_from_this(), all = std::move(next.all)](bool) {
      const MutexLock lock(self->mutex_);
      --self->sending_;
      self->send_what_waits();
    };
    stream_->send(std::move(message));
  }
}

void Stream::ping() {
  FrameHeader header;
  header.kind = FrameKind::kPing;
  header.service_ns = steady_now().ns;
  send(header, nullptr);
}

void Stream::pong(FrameHeader ping) {
  ping.kind = FrameKind::kPong;
  send(ping, nullptr);
}

// ---- receiving

bool Stream::is_answer(std::span<const std::byte> head) const {
  return dialed_ && !answered_ && wire::stream::to_text(head) == kAnswer;
}

std::optional<std::span<std::byte>> Stream::place(std::span<const std::byte> head,
                                                  std::size_t size) {
  if (is_answer(head) && size == 0) return std::span<std::byte>();
  if (const Status good = begin(head, size); !good.ok()) {
    break_off(good.error().message, true);
    return std::nullopt;
  }
  const std::size_t at = std::exchange(incoming_->placed, incoming_->placed + size);
  return std::span(incoming_->frame.body).subspan(at, size);
}

// A message of this size begins: the first one of a frame, or a further one.
Status Stream::begin(std::span<const std::byte> head, std::size_t size) {
  if (incoming_) {
    const std::size_t left = incoming_->frame.body.size() - incoming_->placed;
    if (head.empty() && size == kMessageBytes && size <= left) return {};
    return bad("a frame that does not continue the message before it");
  }
  const auto header = decode_header(head);
  if (!header.ok()) return header.error();
  std::uint64_t body_max = 0;
  {
    const MutexLock lock(mutex_);
    if (!open_) return bad("a frame before the stream was taken");
    body_max = body_max_;
  }
  const auto body = static_cast<std::size_t>(header->body_size);
  if (header->body_size > body_max) {
    return bad("a frame of " + std::to_string(body) +
               " bytes, which is more than this stage takes");
  }
  if (size != first_part(body)) return bad("a frame that is not as long as its header says");
  incoming_.emplace();
  incoming_->frame.header = *header;
  incoming_->frame.body =
      body > kAtOnceMax ? context_.bodies->take(body) : std::vector<std::byte>(body);
  return {};
}

void Stream::arrived(std::span<const std::byte> head, std::span<std::byte> body) {
  if (is_answer(head)) return answered();
  {
    const MutexLock lock(mutex_);
    counters_.received += static_cast<std::int64_t>(head.size() + body.size());
  }
  incoming_->arrived += body.size();
  if (incoming_->arrived < incoming_->frame.body.size()) return taken(body.size());
  Frame frame = std::move(incoming_->frame);
  incoming_.reset();
  frame.held = body.size();
  complete(std::move(frame));
}

// Small frames are read at once, unless large ones before them are not read yet.
void Stream::complete(Frame frame) {
  if (frame.header.kind == FrameKind::kPing || frame.header.kind == FrameKind::kPong) {
    taken(frame.held);
    if (frame.header.kind == FrameKind::kPing) return pong(frame.header);
    const MutexLock lock(mutex_);
    counters_.round_trip = steady_now() - Instant{frame.header.service_ns};
    return;
  }
  if (with_reader_ == 0 && frame.body.size() <= kAtOnceMax) return hand_on(frame);
  ++with_reader_;
  const auto shared = std::make_shared<Frame>(std::move(frame));
  context_.reader->at(Clock::now(), [self = shared_from_this(), shared] {
    self->hand_on(*shared);
    --self->with_reader_;
  });
}

void Stream::hand_on(Frame& frame) {
  std::shared_ptr<StreamOwner> owner;
  {
    const MutexLock lock(mutex_);
    owner = owner_;
  }
  if (!owner || !owner->received(*this, frame)) taken(frame.held);
  if (frame.body.size() > kAtOnceMax) context_.bodies->give_back(std::move(frame.body));
}

void Stream::taken(std::size_t held) {
  const MutexLock lock(mutex_);
  if (stream_) stream_->release(held);
}

StreamCounters Stream::counters() {
  const MutexLock lock(mutex_);
  return counters_;
}

}  // namespace shoal::swarm
