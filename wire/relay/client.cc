// See client.h.
#include "wire/relay/client.h"

#include <chrono>
#include <utility>

#include <unistd.h>

#include "wire/tcp_socket.h"

namespace shoal::wire::relay {
namespace {

constexpr Duration kSilence = seconds(10);  // of a relay that answers each beat

Error no_host(const std::string& relay) {
  return {Code::kUnavailable, "cannot dial the relay " + relay + ": the address has no host",
          "relay", "give host:port"};
}

struct Wish {
  AskKind kind = AskKind::kWait;
  ReplicaId whom;
  CallId call;
};

using Granting = std::function<void(Result<std::shared_ptr<WordLine>>)>;

// Challenge, ask, grant. `limit` holds for each word of the relay.
void ask_for(net::io_context& io, const std::string& relay, const OwnCredentials& own, Wish wish,
             Duration limit, Granting done) {
  const int fd = begin_connect(relay);
  if (fd < 0) {
    return net::post(io, [done = std::move(done), relay] { done(no_host(relay)); });
  }
  const auto line = std::make_shared<WordLine>(io, fd);
  const auto fail = [line, done, relay](Error error) {
    line->close();
    error.message = "relay " + relay + ": " + error.message;
    done(std::move(error));
  };
  line->read(limit, [=](Result<Word> word) {
    if (!word) return fail(word.error());
    if (const auto* refused = std::get_if<Refused>(&*word)) return fail(refused->why);
    const auto* challenge = std::get_if<Challenge>(&*word);
    if (challenge == nullptr) {
      return fail({Code::kInvalidArgument, "it does not begin as a relay does", "relay",
                   "is this the port of a relay?"});
    }
    line->write(sign_ask(challenge->nonce, wish.kind, wish.whom, wish.call, own()));
    line->read(limit, [=](Result<Word> answer) {
      if (!answer) return fail(answer.error());
      if (const auto* refused = std::get_if<Refused>(&*answer)) return fail(refused->why);
      if (!std::holds_alternative<Granted>(*answer)) {
        return fail({Code::kInvalidArgument, "it neither grants nor refuses", "relay",
                     "run the same version on all hosts"});
      }
      done(line);
    });
  });
}

void hand_over(const Result<std::shared_ptr<WordLine>>& line, const Connected& connected) {
  if (!line) return connected(line.error());
  const int fd = (*line)->release();
  if (fd >= 0) return connected(fd);
  connected(Error{Code::kUnavailable, "the connection to the relay ended", "relay", "try again"});
}

}  // namespace

void call_over(net::io_context& io, const std::string& relay, const OwnCredentials& own,
               ReplicaId whom, Duration limit, Connected connected) {
  ask_for(io, relay, own, {AskKind::kCall, whom, make_call_id()}, limit,
          [connected = std::move(connected)](Result<std::shared_ptr<WordLine>> line) {
            hand_over(line, connected);
          });
}

Waiter::Waiter(net::io_context& io, WaitOptions options, OwnCredentials own, std::uint64_t seed)
    : io_(io),
      options_(std::move(options)),
      own_(std::move(own)),
      prng_(seed),
      backoff_(options_.backoff_first, options_.backoff_max),
      retry_(io),
      beat_(io) {}

void Waiter::start(Reached reached, Told told) {
  reached_ = std::move(reached);
  told_ = std::move(told);
  dial();
}

void Waiter::dial() {
  ask_for(io_, options_.relay, own_, {}, options_.limit,
          [self = shared_from_this()](Result<std::shared_ptr<WordLine>> line) {
            if (self->is_over_) {
              if (line) (*line)->close();
              return;
            }
            if (!line) return self->again(line.error());
            self->granted(*line);
          });
}

void Waiter::granted(std::shared_ptr<WordLine> line) {
  line_ = std::move(line);
  backoff_.reset();
  told_({});
  listen();
  beat();
}

// The relay answers each beat, so its silence is noticed.
void Waiter::listen() {
  line_->read(kSilence, [self = shared_from_this(), line = line_](Result<Word> word) {
    if (self->is_over_ || self->line_ != line) return;
    if (!word) return self->again(word.error());
    if (const auto* refused = std::get_if<Refused>(&*word)) return self->again(refused->why);
    if (const auto* called = std::get_if<Called>(&*word)) self->answer(called->call);
    self->listen();
  });
}

void Waiter::beat() {
  beat_.expires_after(std::chrono::nanoseconds(options_.beat.ns));
  beat_.async_wait([self = shared_from_this(), line = line_](const ErrorCode& error) {
    if (error || self->is_over_ || self->line_ != line) return;
    line->write(Beat{});
    self->beat();
  });
}

void Waiter::answer(CallId call) {
  ask_for(io_, options_.relay, own_, {AskKind::kAnswer, {}, call}, options_.limit,
          [self = shared_from_this()](Result<std::shared_ptr<WordLine>> line) {
            if (!line) return;  // the caller hears it by its own limit
            const int fd = (*line)->release();
            if (fd < 0) return;
            if (self->is_over_) {
              ::close(fd);
              return;
            }
            self->reached_(fd);
          });
}

void Waiter::again(const Error& why) {
  if (line_) std::exchange(line_, nullptr)->close();
  told_(why);
  retry_.expires_after(std::chrono::nanoseconds(backoff_.next(prng_).ns));
  retry_.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (!error && !self->is_over_) self->dial();
  });
}

void Waiter::close() {
  if (std::exchange(is_over_, true)) return;
  retry_.cancel();
  beat_.cancel();
  if (line_) std::exchange(line_, nullptr)->close();
  reached_ = nullptr;
  told_ = nullptr;
}

}  // namespace shoal::wire::relay
