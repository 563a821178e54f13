// See lane.h.
#include "wire/stream/lane.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include <sys/socket.h>

namespace shoal::wire::stream {
namespace {

constexpr std::size_t kBudget = 1 << 20;  // bytes that a lane moves before others get their turn
constexpr std::size_t kLoadedMax = 8, kLoadedBytes = 64 << 10;
constexpr int kBeatTicks = 2, kSilenceTicks = 8, kStallTicks = 30;

Error gone(const std::string& how) {
  return {Code::kUnavailable, "the peer is gone: " + how, "", "try again"};
}

}  // namespace

Lane::Lane(net::io_context& io, int fd, std::unique_ptr<Carrier> carrier, bool dials)
    : descriptor_(io, fd), fd_(fd), carrier_(std::move(carrier)), dials_(dials), limit_(io) {}

Lane::~Lane() { let_go_of_loaded(); }

// ---- its life

void Lane::greet(const std::optional<Hello>& hello, Duration limit, Greeted greeted) {
  to_say_ = hello;
  greeted_ = std::move(greeted);
  limit_.expires_after(std::chrono::nanoseconds(limit.ns));
  limit_.async_wait([self = shared_from_this(), limit](const ErrorCode& error) {
    if (error || self->state_ >= State::kIdle) return;
    self->refusal_ = RefusalReason::kLimits;
    self->fail({Code::kDeadlineExceeded,
                "the handshake took longer than " + std::to_string(limit.ms()) + " ms", "address",
                "is this the right address and port? Try again"});
  });
  dials_ ? wait(Wait::kWrite, &Lane::shake) : shake();
}

bool Lane::has_connected() {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) fail(gone(std::strerror(error)));
  return error == 0;
}

void Lane::shake() {
  if (state_ == State::kConnecting) {
    if (dials_ && !has_connected()) return;
    state_ = State::kShaking;
  }
  const Step step = carrier_->handshake();
  if (step.wait == Wait::kOver) {
    refusal_ = carrier_->refusal();
    return fail(carrier_->why());
  }
  if (step.wait != Wait::kNothing) return wait(step.wait, &Lane::shake);
  state_ = State::kGreeting;
  if (to_say_) say(*to_say_);
  if (state_ == State::kGreeting) read_some();
}

void Lane::say(const Hello& hello) {
  const auto words = encode(hello);
  load_frame({{FrameType::kHello, 0, kHelloBytes}, {words.begin(), words.end()}, nullptr});
  write_some();
}

void Lane::run(LaneUser& user, std::uint32_t message_max) {
  if (state_ != State::kIdle) return;
  user_ = &user;
  message_max_ = message_max;
  state_ = State::kRunning;
  congestion_.look();
  if (!reading_) read_some();
  wake();
}

void Lane::wake() {
  if (state_ == State::kRunning && !writing_) write_some();
}

void Lane::tick() {
  if (state_ != State::kRunning) return;
  congestion_.look();
  ++silent_;
  ++mute_;
  stuck_ = parts_.empty() ? 0 : stuck_ + 1;
  if (silent_ > kSilenceTicks) return fail(gone("it has said nothing for too long"));
  if (stuck_ > kStallTicks) return fail(gone("it has taken nothing for too long"));
  if (mute_ < kBeatTicks || writing_) return;
  load_frame({{FrameType::kBeat}, {}, nullptr});
  write_some();
}

void Lane::close() {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  greeted_ = nullptr;
  limit_.cancel();
  ErrorCode ignored;  // it is over in any case
  descriptor_.close(ignored);
  header_.reset();
  parts_.clear();
  let_go_of_loaded();
}

void Lane::fail(const Error& why) {
  if (state_ == State::kOver) return;
  const auto self = shared_from_this();
  const Greeted greeted = std::exchange(greeted_, nullptr);
  close();
  if (greeted) return greeted(why);
  if (user_ != nullptr) user_->over(*this, why);
}

void Lane::wait(Wait what, void (Lane::*then)()) {
  const auto type = what == Wait::kRead ? net::posix::descriptor_base::wait_read
                                        : net::posix::descriptor_base::wait_write;
  descriptor_.async_wait(type, [self = shared_from_this(), then](const ErrorCode& error) {
    if (self->state_ == State::kOver) return;
    if (error) return self->fail(gone(error.message()));
    ((*self).*then)();
  });
}

// ---- reading

void Lane::read_some() {
  reading_ = true;
  for (std::size_t budget = kBudget;;) {
    while (take_next()) {
    }
    if (state_ == State::kOver) return;
    if (state_ == State::kIdle) {
      reading_ = false;  // run() continues
      return;
    }
    if (budget == 0) {
      return net::post(descriptor_.get_executor(), [self = shared_from_this()] {
        if (self->state_ != State::kOver) self->read_some();
      });
    }
    const Step step = carrier_->read(direct_target(), room());
    if (step.wait == Wait::kOver) return fail(carrier_->why());
    if (step.wait != Wait::kNothing) return wait(step.wait, &Lane::read_some);
    arrived(step.bytes);
    budget -= std::min(budget, step.bytes);
  }
}

std::span<std::byte> Lane::direct_target() {
  if (!header_ || !placed_ || unread() > 0) return {};
  return {target_, body_left_};
}

std::span<std::byte> Lane::room() {
  std::memmove(in_.data(), in_.data() + in_begin_, unread());
  in_end_ -= std::exchange(in_begin_, 0);
  return std::span(in_).subspan(in_end_);
}

void Lane::arrived(std::size_t bytes) {
  silent_ = 0;
  const std::size_t direct = std::min(bytes, direct_target().size());
  if (direct > 0) {
    target_ += direct;
    body_left_ -= direct;
  }
  in_end_ += bytes - direct;
}

bool Lane::take_next() {
  if (state_ != State::kGreeting && state_ != State::kRunning) return false;
  if (header_) return take_body();
  if (unread() < kHeaderBytes) return false;
  const std::byte* begin = in_.data() + in_begin_;
  const auto header =
      parse_header(std::span<const std::byte, kHeaderBytes>(begin, kHeaderBytes), message_max_);
  if (!header.ok()) return fail(header.error()), false;
  const std::size_t words = header->type == FrameType::kData ? header->head : header->length;
  if (unread() < kHeaderBytes + words) return false;
  in_begin_ += kHeaderBytes + words;
  const std::span<const std::byte> text(begin + kHeaderBytes, words);
  state_ == State::kGreeting ? take_hello(*header, text) : take_frame(*header, text);
  return true;
}

void Lane::take_hello(const FrameHeader& header, std::span<const std::byte> words) {
  if (header.type != FrameType::kHello) {
    return fail({Code::kInvalidArgument, "the peer does not begin with a hello", "frame.type",
                 "run the same version on both hosts"});
  }
  const auto hello = parse_hello(words);
  if (!hello.ok()) return fail(hello.error());
  state_ = State::kIdle;
  limit_.cancel();
  std::exchange(greeted_, nullptr)(*hello);
}

void Lane::take_frame(const FrameHeader& header, std::span<const std::byte> words) {
  if (header.type == FrameType::kBeat) return;
  if (header.type != FrameType::kData) {
    const Status good = user_->word(header, words);
    if (!good) fail(good.error());
    return;
  }
  const auto place = user_->data_begins(header, words);
  if (state_ == State::kOver) return;
  if (!place.ok()) return fail(place.error());
  header_ = header;
  placed_ = place->has_value();
  target_ = placed_ ? (*place)->data() : nullptr;
  body_left_ = header.body();
}

bool Lane::take_body() {
  const std::size_t taken = std::min(unread(), body_left_);
  if (placed_ && taken > 0) {
    std::memcpy(target_, in_.data() + in_begin_, taken);
    target_ += taken;
  }
  in_begin_ += taken;
  body_left_ -= taken;
  if (body_left_ > 0) return false;
  const FrameHeader header = *std::exchange(header_, std::nullopt);
  if (!placed_) return true;
  const Status good = user_->data_landed(header);
  if (!good) fail(good.error());
  return true;
}

// ---- writing

void Lane::write_some() {
  writing_ = true;
  for (std::size_t budget = kBudget;;) {
    if (parts_.empty() && !load()) {
      writing_ = false;
      return;
    }
    if (budget == 0) {
      return net::post(descriptor_.get_executor(), [self = shared_from_this()] {
        if (self->state_ != State::kOver) self->write_some();
      });
    }
    const Step step = carrier_->write(std::span(parts_).subspan(parts_begin_));
    if (step.wait == Wait::kOver) return fail(carrier_->why());
    if (step.wait != Wait::kNothing) return wait(step.wait, &Lane::write_some);
    wrote(step.bytes);
    if (state_ == State::kOver) return;
    budget -= std::min(budget, step.bytes);
  }
}

bool Lane::load() {
  std::size_t bytes = 0;
  while (state_ == State::kRunning && loaded_.size() < kLoadedMax && bytes < kLoadedBytes) {
    auto frame = user_->next_frame(*this);
    if (!frame) break;
    if (state_ == State::kOver) {  // asking for it ended a stream, whose user ended us
      Outbox::let_go(*frame);
      break;
    }
    bytes += kHeaderBytes + frame->header.length;
    load_frame(*std::move(frame));
  }
  return !parts_.empty();
}

void Lane::load_frame(OutFrame frame) {
  const HeaderBytes header = encode(frame.header);
  const Loaded& loaded = loaded_.emplace_back(Loaded{header, std::move(frame)});
  parts_.emplace_back(loaded.header);
  for (const auto& part : loaded.frame.payload()) parts_.push_back(part);
}

void Lane::wrote(std::size_t bytes) {
  mute_ = stuck_ = 0;
  while (bytes > 0) {
    auto& front = parts_[parts_begin_];
    const std::size_t taken = std::min(bytes, front.size());
    front = front.subspan(taken);
    bytes -= taken;
    if (front.empty()) ++parts_begin_;
  }
  if (parts_begin_ < parts_.size()) return;
  parts_.clear();
  parts_begin_ = 0;
  let_go_of_loaded();
}

// The user may call back from here.
void Lane::let_go_of_loaded() {
  std::deque<Loaded> gone = std::exchange(loaded_, {});
  for (Loaded& each : gone) Outbox::let_go(each.frame);
}

void Lane::detach(StreamId stream) {
  if (header_ && header_->stream == stream) placed_ = false;
  const bool holds = std::ranges::any_of(loaded_, [&](const Loaded& each) {
    return each.frame.message && each.frame.header.stream == stream;
  });
  if (!holds) return;
  std::vector<std::byte> copy;
  for (const auto& part : std::span(parts_).subspan(parts_begin_)) {
    copy.insert(copy.end(), part.begin(), part.end());
  }
  copy_.swap(copy);
  parts_.assign(1, copy_);
  parts_begin_ = 0;
  let_go_of_loaded();
}

}  // namespace shoal::wire::stream
