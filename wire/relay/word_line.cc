// See word_line.h.
#include "wire/relay/word_line.h"

#include <chrono>
#include <utility>

namespace shoal::wire::relay {
namespace {

constexpr auto kClosing = std::chrono::seconds(1);

Error gone(const ErrorCode& error) {
  return {Code::kUnavailable, "the connection ended: " + error.message(), "", "try again"};
}

}  // namespace

WordLine::WordLine(net::io_context& io, int fd)
    : socket_(io, kProtocol, fd), limit_(io), closing_(io) {}

void WordLine::read(Duration limit, Read done) {
  const std::uint64_t number = ++reading_;
  timed_out_ = false;
  if (limit > Duration()) {
    limit_.expires_after(std::chrono::nanoseconds(limit.ns));
    limit_.async_wait([self = shared_from_this(), number](const ErrorCode& error) {
      if (error || self->reading_ != number) return;
      self->timed_out_ = true;
      self->close();
    });
  }
  read_length(std::move(done));
}

void WordLine::read_length(Read done) {
  net::async_read(socket_, net::buffer(length_),
                  [self = shared_from_this(), done = std::move(done)](const ErrorCode& error,
                                                                      std::size_t) mutable {
                    if (error) return self->finish(done, gone(error));
                    std::size_t size = 0;
                    for (std::size_t i = 0; i < self->length_.size(); ++i) {
                      size |= std::size_t{self->length_[i]} << (8 * i);
                    }
                    if (size <= kWordMax) return self->read_body(std::move(done), size);
                    self->finish(done, Error{Code::kInvalidArgument,
                                             "a word at a relay announces " + std::to_string(size) +
                                                 " bytes, of at most " + std::to_string(kWordMax),
                                             "relay.length", "is this the port of a relay?"});
                  });
}

void WordLine::read_body(Read done, std::size_t size) {
  body_.resize(size);
  net::async_read(
      socket_, net::buffer(body_),
      [self = shared_from_this(), done = std::move(done)](const ErrorCode& error, std::size_t) {
        if (error) return self->finish(done, gone(error));
        self->finish(done, decode(self->body_));
      });
}

void WordLine::finish(const Read& done, Result<Word> word) {
  ++reading_;
  limit_.cancel();
  if (timed_out_) {
    word = Error{Code::kDeadlineExceeded, "nothing was said in time", "", "try again"};
  }
  done(std::move(word));
}

void WordLine::write(const Word& word, Written written) {
  if (!socket_.is_open()) return;
  if (ahead_.size() >= kAheadMax) return close();
  std::string body = encode(word);
  Out out{std::string(4, '\0'), std::move(written)};
  for (std::size_t i = 0; i < 4; ++i) out.bytes[i] = static_cast<char>(body.size() >> (8 * i));
  out.bytes += body;
  ahead_.push_back(std::move(out));
  write_next();
}

void WordLine::write_next() {
  if (writing_ || ahead_.empty()) return;
  writing_ = true;
  net::async_write(socket_, net::buffer(ahead_.front().bytes),
                   [self = shared_from_this()](const ErrorCode& error, std::size_t) {
                     self->writing_ = false;
                     if (error) return self->close();
                     const Written written = std::move(self->ahead_.front().written);
                     self->ahead_.pop_front();
                     if (written) written();
                     if (self->closes_after_ && self->ahead_.empty()) return self->close();
                     if (self->socket_.is_open()) self->write_next();
                   });
}

void WordLine::close_after_words() {
  if (ahead_.empty()) return close();
  closes_after_ = true;
  closing_.expires_after(kClosing);
  closing_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (!error) self->close();
  });
}

void WordLine::close() {
  limit_.cancel();
  closing_.cancel();
  ErrorCode ignored;  // it is over in any case
  socket_.close(ignored);
}

int WordLine::release() {
  limit_.cancel();
  return socket_.is_open() ? socket_.release() : -1;
}

}  // namespace shoal::wire::relay
