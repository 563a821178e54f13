// See neighbors.h. The lock is never held while a stream is called: streams call back.
#include "swarm/pipeline/neighbors.h"

#include <algorithm>
#include <utility>

namespace shoal::swarm {
namespace {

constexpr std::size_t kStreamsMax = 4096;
constexpr auto kPingEvery = std::chrono::seconds(1);
constexpr std::uint64_t kGossipMax = std::uint64_t{kRoutersMax} * 24;

Error unfit(const std::string& what, std::uint64_t given, std::uint64_t expected) {
  return Error{Code::kInvalidArgument,
               what + " must be " + std::to_string(expected) + ", got " + std::to_string(given)};
}

struct Extent {
  std::uint32_t rows = 0, columns = 0, tokens = 0;
};

Extent extent_of(const StageShape& shape, const FrameHeader& header) {
  const auto u32 = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  if (header.kind == FrameKind::kForward) {
    const std::int64_t sequences = shape.sequences_of(header.microbatch.kind);
    return {u32(sequences * shape.context), u32(shape.hidden),
            u32(shape.data_words(header.microbatch.kind))};
  }
  switch (header.microbatch.kind) {
    case PassKind::kTrain:
      return {u32(shape.rows()), u32(shape.hidden), 0};
    case PassKind::kLoss:
      return {};
    case PassKind::kLogits:
      return {u32(shape.sequences_of(PassKind::kLogits)), u32(shape.vocab), 0};
  }
  return {};
}

}  // namespace

Status check_facts(const StageFacts& facts, const FrameHeader& header) {
  const bool forward = header.kind == FrameKind::kForward;
  const bool last = facts.stage + 1 == facts.stages;
  if (forward ? facts.stage == 0 : last) {
    return Error{Code::kInvalidArgument, "a frame that runs against the pipeline"};
  }
  const Extent extent = extent_of(facts.shape, header);
  if (header.rows != extent.rows) return unfit("rows", header.rows, extent.rows);
  if (header.columns != extent.columns) return unfit("columns", header.columns, extent.columns);
  if (header.tokens != extent.tokens) return unfit("tokens", header.tokens, extent.tokens);
  if (header.values() > 0 && header.codec != facts.codec) {
    return unfit("codec", static_cast<std::uint64_t>(header.codec),
                 static_cast<std::uint64_t>(facts.codec));
  }
  return {};
}

std::uint64_t body_max_of(const StageFacts& facts) {
  const StageShape& shape = facts.shape;
  const auto values = static_cast<std::size_t>(std::max(shape.rows() * shape.hidden, shape.vocab));
  const auto tokens = static_cast<std::size_t>(shape.data_words(PassKind::kTrain));
  const std::uint64_t largest =
      encoded_size(ActivationCodec::kFp32, values) + tokens * sizeof(std::uint32_t);
  return std::min(2 * std::max(largest, kGossipMax), kFrameBodyMax);
}

std::shared_ptr<Neighbors> Neighbors::create(const NeighborsOptions& options,
                                             const StreamContext& context,
                                             std::function<void()> wake) {
  std::shared_ptr<Neighbors> neighbors(new Neighbors(options, context, std::move(wake)));
  neighbors->ping_all();
  return neighbors;
}

void Neighbors::ping_all() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    for (const auto& [peer, stream] : open_) {
      if (stream->dialed()) streams.push_back(stream);
    }
  }
  for (const auto& stream : streams) stream->ping();
  context_.timer->at(Clock::now() + kPingEvery, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->ping_all();
  });
}

// ---- streams

void Neighbors::dial(const std::vector<PipelineMember>& peers) {
  std::vector<std::shared_ptr<Stream>> unwanted;
  std::vector<ReplicaId> fresh;
  {
    const MutexLock lock(mutex_);
    if (closed_) return;
    std::map<ReplicaId, Wanted> old = std::move(wanted_);
    wanted_.clear();
    for (const PipelineMember& member : peers) {
      const auto it = old.find(member.replica);
      if (it == old.end() || it->second.member.address != member.address) {
        wanted_[member.replica].member = member;
        fresh.push_back(member.replica);
      } else {
        wanted_.insert(old.extract(it));
      }
    }
    for (auto& [peer, wanted] : old) {
      if (open_.erase(peer) > 0) push({peer, Lost{"it is not wanted any more"}, nullptr});
      if (wanted.stream) unwanted.push_back(std::move(wanted.stream));
    }
    call_wake();
  }
  for (const auto& stream : unwanted) stream->close();
  for (const ReplicaId peer : fresh) dial_at(Clock::now(), peer);
}

// Not in the caller's thread, which has better to do than to wait for a name service.
void Neighbors::dial_at(Clock::time_point when, ReplicaId peer) {
  context_.timer->at(when, [weak = weak_from_this(), peer] {
    if (const auto self = weak.lock()) self->dial_now(peer);
  });
}

void Neighbors::dial_now(ReplicaId peer) {
  std::shared_ptr<Stream> stream;
  std::string address;
  {
    const MutexLock lock(mutex_);
    const auto it = wanted_.find(peer);
    if (closed_ || it == wanted_.end() || it->second.stream) return;
    const StreamName name{options_.job, options_.epoch, options_.self, peer};
    stream = std::make_shared<Stream>(context_, name);
    it->second.stream = stream;
    address = it->second.member.address;
  }
  stream->dial(address, shared_from_this());
}

Status Neighbors::take_over(const std::shared_ptr<Stream>& stream,
                            std::shared_ptr<Stream>& replaced) {
  const StreamName& name = stream->name();
  if (name.job != options_.job || name.epoch != options_.epoch) {
    return Error{Code::kConflict, to_string(name.to) + " works for " + to_string(options_.job) +
                                      ", epoch " + std::to_string(options_.epoch)};
  }
  const MutexLock lock(mutex_);
  if (closed_) return Error{Code::kNotFound, to_string(name.to) + " has left"};
  if (wanted_.contains(name.from)) {
    return Error{Code::kConflict, to_string(name.from) + " is dialed from here"};
  }
  if (open_.size() >= kStreamsMax) return Error{Code::kResourceExhausted, "too many streams"};
  auto& slot = open_[name.from];
  if (slot) push({name.from, Lost{"it came again"}, nullptr});
  replaced = std::exchange(slot, stream);
  push({name.from, Connected{}, nullptr});
  call_wake();
  return {};
}

void Neighbors::accept(const std::shared_ptr<Stream>& stream) {
  std::shared_ptr<Stream> replaced;
  const Status good = take_over(stream, replaced);
  if (replaced) replaced->close();
  if (!good.ok()) return stream->refuse(good.error());
  stream->start(shared_from_this());
}

void Neighbors::opened(Stream& stream) {
  const MutexLock lock(mutex_);
  const auto it = wanted_.find(stream.peer());
  if (closed_ || it == wanted_.end() || it->second.stream.get() != &stream) return;
  it->second.backoff.reset();
  open_[stream.peer()] = it->second.stream;
  push({stream.peer(), Connected{}, nullptr});
  call_wake();
}

void Neighbors::ended(Stream& stream, const std::string& why, bool bad_frame) {
  const MutexLock lock(mutex_);
  bad_frames_ += bad_frame;
  const ReplicaId peer = stream.peer();
  if (const auto it = open_.find(peer); it != open_.end() && it->second.get() == &stream) {
    open_.erase(it);
    push({peer, Lost{why}, nullptr});
  }
  const auto it = wanted_.find(peer);
  if (!closed_ && it != wanted_.end() && it->second.stream.get() == &stream) {
    Wanted& wanted = it->second;
    const StreamCounters counters = stream.counters();
    wanted.before.sent += counters.sent;
    wanted.before.received += counters.received;
    wanted.before.forwards += counters.forwards;
    wanted.stream.reset();
    wanted.trouble = why;
    dial_at(Clock::now() + std::chrono::nanoseconds(wanted.backoff.next(prng_).ns), peer);
  }
  call_wake();
}

void Neighbors::send(ReplicaId to, const FrameHeader& header, SharedBytes body) {
  std::shared_ptr<Stream> stream;
  {
    const MutexLock lock(mutex_);
    const auto it = open_.find(to);
    if (it == open_.end()) return;
    stream = it->second;
  }
  stream->send(header, std::move(body));
}

void Neighbors::close() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    for (auto& [peer, stream] : open_) streams.push_back(std::move(stream));
    for (auto& [peer, wanted] : wanted_) {
      if (wanted.stream) streams.push_back(std::move(wanted.stream));
    }
    open_.clear();
    wanted_.clear();
    inbox_.clear();
    awoken_.wait(mutex_, [this]() SHOAL_REQUIRES(mutex_) { return waking_ == 0; });
  }
  for (const auto& stream : streams) stream->close();
}

// ---- frames

bool Neighbors::received(Stream& stream, const Frame& frame) {
  const FrameHeader& header = frame.header;
  switch (header.kind) {
    case FrameKind::kForward:
      return read_forward(stream, frame);
    case FrameKind::kBackward:
      return read_backward(stream, frame);
    case FrameKind::kCancel:
      return push(stream, frame, ArrivedCancel{forward_of(header)});
    case FrameKind::kRefusal:
      return push(stream, frame, ArrivedRefusal{forward_of(header), header.reason});
    case FrameKind::kGossip:
      break;
    case FrameKind::kPing:
    case FrameKind::kPong:
      return false;  // the stream's own
  }
  const std::span<const std::byte> whole[] = {frame.body};
  auto gossip = gossip_of(header, whole);
  if (!gossip.ok()) return stream.break_off(gossip.error().message, true), false;
  return push(stream, frame, std::move(*gossip));
}

bool Neighbors::refuse(Stream& stream, const FrameHeader& header, const std::string& why) {
  if (header.kind != FrameKind::kForward) return stream.break_off(why, true), false;
  {
    const MutexLock lock(mutex_);
    ++bad_frames_;
  }
  FrameHeader refusal = header_of(forward_of(header), FrameKind::kRefusal);
  refusal.reason = RefusalReason::kBadTensor;
  stream.send(refusal, nullptr);
  return false;
}

Status Neighbors::open(Stream& stream, const Frame& frame, OpenBody& open) {
  open.header = frame.header;
  open.bytes = frame.body;
  if (Status good = check_facts(options_.facts, frame.header); !good.ok()) return good;
  if (frame.header.entropy_coded) {
    const std::span<const std::byte> coded[] = {frame.body};
    Status good = entropy_decode(stream.coder(), open.header, coded, open.plain);
    if (!good.ok()) return good;
    open.bytes = open.plain;
  }
  const std::span<const std::byte> whole[] = {open.bytes};
  return check_body(open.header, open.bytes.empty() ? Pieces() : Pieces(whole));
}

bool Neighbors::read_forward(Stream& stream, const Frame& frame) {
  const FrameHeader& header = frame.header;
  OpenBody body;
  Status good = open(stream, frame, body);
  if (!good.ok()) return refuse(stream, header, good.error().message);
  ArrivedForward forward{forward_of(header), std::vector<std::uint32_t>(header.tokens),
                         buffers_.take(header.values())};
  const auto tokens = std::as_writable_bytes(std::span(forward.tokens));
  std::ranges::copy(body.bytes.first(tokens.size()), tokens.begin());
  const StageShape& shape = options_.facts.shape;
  const bool evaluates = header.microbatch.kind == PassKind::kLoss;
  const auto too_large = [&](std::uint32_t token) {
    return token >= shape.vocab && !(evaluates && token == kNoToken);
  };
  if (shape.data == StageData::kTokens && std::ranges::any_of(forward.tokens, too_large)) {
    return refuse(stream, header, "a token too large");
  }
  const std::span<const std::byte> tensor[] = {body.bytes.subspan(tokens.size())};
  good = decode(header.codec, tensor, forward.input);
  if (!good.ok()) return refuse(stream, header, good.error().message);
  return push(stream, frame, std::move(forward));
}

bool Neighbors::read_backward(Stream& stream, const Frame& frame) {
  const FrameHeader& header = frame.header;
  OpenBody body;
  Status good = open(stream, frame, body);
  ArrivedBackward backward;
  if (good.ok()) {
    backward = {backward_of(header), buffers_.take(header.values())};
    const std::span<const std::byte> tensor[] = {body.bytes};
    good = decode(header.codec, tensor, backward.tensor);
  }
  if (!good.ok()) return refuse(stream, header, good.error().message);
  return push(stream, frame, std::move(backward));
}

// ---- the inbox

bool Neighbors::push(Stream& stream, const Frame& frame, decltype(Arrival::news) news) {
  const MutexLock lock(mutex_);
  const auto it = open_.find(stream.peer());
  if (closed_ || it == open_.end() || it->second.get() != &stream) return false;
  push({stream.peer(), std::move(news), it->second, frame.held});
  call_wake();
  return true;
}

void Neighbors::push(Arrival arrival) {
  wake_due_ |= inbox_.empty();
  inbox_.push_back(std::move(arrival));
}

// Leaves the lock for the call.
void Neighbors::call_wake() {
  if (!std::exchange(wake_due_, false) || closed_) return;
  ++waking_;
  {
    const MutexUnlock meanwhile(mutex_);
    wake_();
  }
  if (--waking_ == 0) awoken_.notify_all();
}

std::vector<Arrival> Neighbors::take() {
  std::vector<Arrival> arrivals;
  {
    const MutexLock lock(mutex_);
    arrivals.swap(inbox_);
  }
  for (const Arrival& arrival : arrivals) {
    if (arrival.stream) arrival.stream->taken(arrival.held);
  }
  return arrivals;
}

std::vector<LinkStats> Neighbors::links() {
  std::vector<LinkStats> result;
  const MutexLock lock(mutex_);
  for (const auto& [peer, wanted] : wanted_) {
    const StreamCounters now = wanted.stream ? wanted.stream->counters() : StreamCounters{};
    result.push_back({peer, now.round_trip, wanted.before.forwards + now.forwards,
                      Bytes(wanted.before.sent + now.sent),
                      Bytes(wanted.before.received + now.received)});
  }
  return result;
}

std::string Neighbors::troubles() {
  std::string text;
  const MutexLock lock(mutex_);
  for (const auto& [peer, wanted] : wanted_) {
    if (open_.contains(peer) || wanted.trouble.empty()) continue;
    text += (text.empty() ? "" : "; ") + to_string(peer) + ": " + wanted.trouble;
  }
  return text;
}

std::int64_t Neighbors::bad_frames() {
  const MutexLock lock(mutex_);
  return bad_frames_;
}

}  // namespace shoal::swarm
