#include "objects/http.h"

#include <cerrno>
#include <charconv>
#include <cstring>

#include <unistd.h>

#include "base/backoff.h"
#include "objects/exchange.h"
#include "threads/clock.h"
#include "threads/mutex.h"
#include "threads/sleep.h"

namespace shoal::objects {
namespace {

using Handle = std::unique_ptr<CURL, void (*)(CURL*)>;

bool is_worth_a_retry(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kDeadlineExceeded;
}

}  // namespace

// Handles that keep their connections; one is used by one thread at a time.
class Client::Pool {
 public:
  Handle take() SHOAL_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (!idle_.empty()) {
        Handle handle = std::move(idle_.back());
        idle_.pop_back();
        return handle;
      }
    }
    static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
    return {global == CURLE_OK ? curl_easy_init() : nullptr, curl_easy_cleanup};
  }
  void give_back(Handle handle) SHOAL_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (idle_.size() < kIdleMax) idle_.push_back(std::move(handle));
  }

 private:
  Mutex mutex_;
  std::vector<Handle> idle_ SHOAL_GUARDED_BY(mutex_);
};

Body body_of(std::string text) {
  const Bytes size(static_cast<std::int64_t>(text.size()));
  return {size, [text = std::move(text)](std::int64_t offset, std::span<std::byte> into) -> Status {
            std::memcpy(into.data(), text.data() + offset, into.size());
            return {};
          }};
}

Body body_of_file(int descriptor, std::int64_t begin, Bytes size) {
  return {size, [=](std::int64_t offset, std::span<std::byte> into) -> Status {
            while (!into.empty()) {
              const ssize_t got = ::pread(descriptor, into.data(), into.size(), begin + offset);
              if (got < 0 && errno == EINTR) continue;
              if (got <= 0) {
                return Error{Code::kDataLoss,
                             got == 0
                                 ? "the file became shorter while it was sent"
                                 : std::string("the file cannot be read: ") + std::strerror(errno),
                             "", ""};
              }
              into = into.subspan(static_cast<std::size_t>(got));
              offset += got;
            }
            return {};
          }};
}

const std::string* Answer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? nullptr : &found->second;
}

std::optional<Bytes> content_length(const Answer& answer) {
  const std::string* text = answer.header("content-length");
  if (text == nullptr) return {};
  std::int64_t size = -1;
  const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), size);
  if (failure != std::errc() || end != text->data() + text->size() || size < 0) return {};
  return Bytes(size);
}

Client::Client(ClientOptions options)
    : options_(std::move(options)), pool_(std::make_unique<Pool>()) {}
Client::~Client() = default;

Status Client::try_again_while_it_helps(const std::function<Status()>& once,
                                        const std::function<Bytes()>& moved) const {
  const Patience& patience = options_.patience;
  Prng prng(static_cast<std::uint64_t>(steady_now().ns));
  Backoff pauses(patience.pause_first, patience.pause_max);
  int tries = 0;
  for (Bytes before = moved();;) {
    const Status status = once();
    if (status.ok() || !is_worth_a_retry(status.error())) return status;
    if (moved() > before) {
      before = moved();
      tries = 0;
      pauses.reset();
    }
    if (++tries >= patience.tries) return status;
    if (options_.on_retry) options_.on_retry();
    if (!sleep_unless_stopped(pauses.next(prng), stop_.get_token())) {
      return Error{Code::kCancelled, "the request was cancelled", "", ""};
    }
  }
}

Result<Answer> Client::send(const Request& request) const {
  return send([&]() -> Result<Request> { return request; });
}

Result<Answer> Client::send(const std::function<Result<Request>()>& make) const {
  std::optional<Answer> answer;
  const auto once = [&]() -> Status {
    const auto request = make();
    if (!request.ok()) return request.error();
    Handle handle = pool_->take();
    if (!handle) return Error{Code::kInternal, "libcurl cannot start", "", ""};
    auto got = Exchange(handle.get(), *this, request.value(), nullptr).run();
    pool_->give_back(std::move(handle));
    if (!got.ok()) return got.error();
    answer = std::move(got).value();
    return {};
  };
  const Status sent = try_again_while_it_helps(once, [] { return Bytes(); });
  if (!sent.ok()) return sent.error();
  return std::move(*answer);
}

Result<Answer> Client::get(const Request& request, const Range& range, const Sink& sink) const {
  return get([&]() -> Result<Request> { return request; }, range, sink);
}

Result<Answer> Client::get(const std::function<Result<Request>()>& make, const Range& range,
                           const Sink& sink) const {
  if (range.size == Bytes(0) || range.whole == range.from) return Answer{.status = 200};
  Received received{.range = range, .sink = &sink, .bytes = {}, .wanted = {}, .etag = {}};
  std::optional<Answer> answer;
  const auto once = [&]() -> Status {
    if (received.wanted && received.bytes >= *received.wanted) return {};
    const auto request = make();
    if (!request.ok()) return request.error();
    Handle handle = pool_->take();
    if (!handle) return Error{Code::kInternal, "libcurl cannot start", "", ""};
    auto got = Exchange(handle.get(), *this, request.value(), &received).run();
    pool_->give_back(std::move(handle));
    if (!got.ok()) return got.error();
    answer = std::move(got).value();
    return {};
  };
  const Status done = try_again_while_it_helps(once, [&] { return received.bytes; });
  if (!done.ok()) return done.error();
  return answer ? std::move(*answer) : Answer{.status = 200};
}

}  // namespace shoal::objects
