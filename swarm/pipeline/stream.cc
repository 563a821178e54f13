// See stream.h.
#include "swarm/pipeline/stream.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace shoal::swarm {
namespace {

constexpr std::size_t kMessageMax = 1 << 20;
// Credits bound what is under way far below this; a peer that stopped reading shows here.
constexpr int kFramesWaitingMax = 64;  // with the owner; many more than its credits
constexpr std::size_t kMessagesWaitingMax = 1 << 16;

Instant instant(Clock::time_point time) {
  return {std::chrono::nanoseconds(time.time_since_epoch()).count()};
}

std::size_t size_of(const Slices& slices) {
  std::size_t size = 0;
  for (const grpc::Slice& slice : slices) size += slice.size();
  return size;
}

// Cuts off the first `size` bytes of what begins at slice `index`, byte `at`.
Slices cut(const Slices& slices, std::size_t& index, std::size_t& at, std::size_t size) {
  Slices result;
  while (size > 0) {
    const std::size_t n = std::min(size, slices[index].size() - at);
    result.push_back(slices[index].sub(at, at + n));
    size -= n;
    at += n;
    if (at == slices[index].size()) ++index, at = 0;
  }
  return result;
}

std::vector<std::span<const std::byte>> pieces_of(const Slices& slices, std::size_t skip) {
  std::vector<std::span<const std::byte>> pieces;
  for (const grpc::Slice& slice : slices) {
    const std::size_t n = std::min(skip, slice.size());
    skip -= n;
    if (n == slice.size()) continue;
    pieces.emplace_back(reinterpret_cast<const std::byte*>(slice.begin()) + n, slice.size() - n);
  }
  return pieces;
}

bool copy_front(const Slices& slices, std::span<std::byte> out) {
  std::size_t filled = 0;
  for (const auto& piece : pieces_of(slices, 0)) {
    const std::size_t n = std::min(out.size() - filled, piece.size());
    if (n > 0) std::memcpy(out.data() + filled, piece.data(), n);
    filled += n;
  }
  return filled == out.size();
}

}  // namespace

// ---- sending

void Stream::send(const FrameHeader& header, const Slices& body) {
  const auto bytes = encode_header(header);
  Slices slices = {grpc::Slice(bytes.data(), bytes.size())};
  slices.insert(slices.end(), body.begin(), body.end());
  const std::size_t size = size_of(slices);
  SHOAL_CHECK(size == kFrameHeaderSize + header.body_size);
  bool full = false;
  {
    const MutexLock lock(mutex_);
    if (over_) return;
    enqueue(std::move(slices), size);
    counters_.forwards += header.kind == FrameKind::kForward;
    full = queue_.size() > kMessagesWaitingMax;
  }
  if (full) return break_off("the peer does not take what is sent to it", false);
  drive();
}

void Stream::enqueue(Slices slices, std::size_t size) {
  counters_.sent += static_cast<std::int64_t>(size);
  if (size <= kMessageMax) return queue_.push_back(std::move(slices));
  std::size_t index = 0, at = 0;
  for (std::size_t left = size; left > 0;) {
    const std::size_t n = std::min(left, kMessageMax);
    queue_.push_back(cut(slices, index, at, n));
    left -= n;
  }
}

void Stream::ping() {
  FrameHeader header;
  header.kind = FrameKind::kPing;
  header.service_ns = instant(Clock::now()).ns;
  send(header, {});
}

// ---- steps

void Stream::drive() {
  const auto keep = shared_from_this();  // longer than the lock
  const MutexLock lock(mutex_);
  while (step()) {
  }
}

bool Stream::step() {
  if (over_) return settle();
  if (opening_ || !owner_) return false;
  if (write_next()) return true;
  if (reading_ || waiting_ >= kFramesWaitingMax) return false;
  reading_ = true;
  ++starting_;
  {
    const MutexUnlock meanwhile(mutex_);
    start_read();
  }
  --starting_;
  return true;
}

bool Stream::write_next() {
  if (writing_ || queue_.empty()) return false;
  const Slices message = std::move(queue_.front());
  queue_.pop_front();
  writing_ = true;
  ++starting_;
  {
    const MutexUnlock meanwhile(mutex_);
    start_write(grpc::ByteBuffer(message.data(), message.size()));
  }
  --starting_;
  return true;
}

// Brings a stream that is over to its end: cancelled once, finished when nothing is with gRPC.
bool Stream::settle() {
  if (finished_) return false;
  if (!cancelled_) {
    cancelled_ = true;
    queue_.clear();
    ++starting_;
    {
      const MutexUnlock meanwhile(mutex_);
      cancel();
    }
    --starting_;
    return true;
  }
  if (opening_ || reading_ || writing_ || starting_ > 0) return false;
  finished_ = true;
  {
    const MutexUnlock meanwhile(mutex_);
    finish();
  }
  return false;
}

// ---- events

void Stream::begin(std::shared_ptr<StreamOwner> owner) {
  {
    const MutexLock lock(mutex_);
    owner_ = std::move(owner);
  }
  drive();
}

void Stream::on_opened(bool ok) {
  std::shared_ptr<StreamOwner> owner;
  {
    const MutexLock lock(mutex_);
    opening_ = false;
    over_ |= !ok;
    owner = owner_;
  }
  if (ok && owner) owner->opened(*this);
  drive();
}

void Stream::on_written(bool ok) {
  {
    const MutexLock lock(mutex_);
    writing_ = false;
    over_ |= !ok;
  }
  drive();
}

void Stream::on_read(bool ok, grpc::ByteBuffer& message) {
  Slices slices;
  if (!ok || !message.Dump(&slices).ok()) {
    {
      const MutexLock lock(mutex_);
      reading_ = false;
      over_ = true;
    }
    return drive();
  }
  message.Clear();
  take_in(slices);
}

void Stream::take_in(const Slices& message) {
  if (append(message)) complete();
  {
    const MutexLock lock(mutex_);
    reading_ = false;
  }
  drive();
}

std::uint64_t Stream::body_max() {
  const MutexLock lock(mutex_);
  return owner_ ? owner_->body_max() : kFrameBodyMax;
}

// Adds a message to the frame that is being put together; ends the stream when it does not fit.
bool Stream::append(const Slices& message) {
  const std::size_t size = size_of(message);
  {
    const MutexLock lock(mutex_);
    counters_.received += static_cast<std::int64_t>(size);
  }
  if (!incoming_) {
    std::array<std::byte, kFrameHeaderSize> front;
    if (!copy_front(message, front)) return break_off("a frame that is too short", true), false;
    const auto header = decode_header(front);
    if (!header.ok()) return break_off(header.error().message, true), false;
    if (header->body_size > body_max()) {
      return break_off("a frame of " + std::to_string(header->body_size) +
                           " bytes, which is more than this stage takes",
                       true),
             false;
    }
    incoming_ = Incoming{*header, {}, kFrameHeaderSize + header->body_size};
  }
  if (size > incoming_->missing) return break_off("a frame that is too long", true), false;
  incoming_->missing -= size;
  incoming_->slices.insert(incoming_->slices.end(), message.begin(), message.end());
  return true;
}

// Hands a frame on when it is complete.
void Stream::complete() {
  if (incoming_->missing > 0) return;
  const Incoming frame = std::move(*incoming_);
  incoming_.reset();
  FrameHeader header = frame.header;
  if (header.kind == FrameKind::kPing) {
    header.kind = FrameKind::kPong;
    return send(header, {});
  }
  std::shared_ptr<StreamOwner> owner;
  {
    const MutexLock lock(mutex_);
    if (header.kind == FrameKind::kPong) {
      counters_.round_trip = instant(Clock::now()) - Instant{header.service_ns};
      return;
    }
    owner = owner_;
    ++waiting_;
  }
  if (!owner || !owner->received(*this, header, pieces_of(frame.slices, kFrameHeaderSize))) taken();
}

void Stream::taken() {
  {
    const MutexLock lock(mutex_);
    --waiting_;
  }
  drive();
}

void Stream::break_off(const std::string& why, bool bad_frame) {
  {
    const MutexLock lock(mutex_);
    if (!over_) why_ = why, bad_frame_ = bad_frame;
    over_ = true;
  }
  drive();
}

void Stream::close() {
  std::shared_ptr<StreamOwner> owner;  // let go without the lock
  {
    const MutexLock lock(mutex_);
    over_ = true;
    owner = std::move(owner_);
    owner_.reset();
  }
  drive();
}

void Stream::on_closed(const std::string& why) {
  std::shared_ptr<StreamOwner> owner;
  std::string reason;
  bool bad_frame = false;
  {
    const MutexLock lock(mutex_);
    over_ = finished_ = true;
    owner = std::move(owner_);
    owner_.reset();
    reason = why_.empty() ? why : why_;
    bad_frame = bad_frame_;
  }
  if (owner) owner->ended(*this, reason, bad_frame);
}

void Stream::never_begun() {
  const MutexLock lock(mutex_);
  over_ = cancelled_ = finished_ = true;
}

StreamCounters Stream::counters() {
  const MutexLock lock(mutex_);
  return counters_;
}

}  // namespace shoal::swarm
