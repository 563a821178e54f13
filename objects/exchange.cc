#include "objects/exchange.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/text.h"
#include "base/wire_text.h"
#include "objects/content_range.h"

namespace shoal::objects {
namespace {

constexpr std::size_t kReasonMax = 300;
constexpr std::size_t kHeadersMax = 100;

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

Code code_of(int status) {
  switch (status) {
    case 401:
    case 403:
      return Code::kPermissionDenied;
    case 404:
    case 410:
      return Code::kNotFound;
    case 408:
    case 425:
    case 429:
      return Code::kUnavailable;
    case 409:
    case 412:
      return Code::kConflict;
    case 413:
    case 507:
      return Code::kResourceExhausted;
    default:
      return status >= 500         ? Code::kUnavailable
             : is_redirect(status) ? Code::kIncompatible
                                   : Code::kInvalidArgument;
  }
}

constexpr const char* kOtherContent =
    "restore the former content, or read it again when no program writes to it";

const char* remedy_of(Code code) {
  if (code == Code::kPermissionDenied) return "let this key or address read it, or name another";
  if (code == Code::kNotFound) return "check the name, or put it back";
  return "";
}

}  // namespace

Client::Exchange::Exchange(CURL* handle, const Client& client, const Request& request,
                           Received* received)
    : handle_(handle),
      client_(client),
      options_(client.options_),
      request_(request),
      received_(received) {}

Result<Answer> Client::Exchange::run() {
  if (stopped()) return Error{Code::kCancelled, "the requests were cancelled", "", ""};
  std::string url = request_.url;
  const bool follows = request_.method == "GET" || request_.method == "HEAD";
  for (int hops = 0; hops <= kRedirectsMax; ++hops) {
    private_allowed_ =
        hops == 0 ? options_.reach.private_allowed : options_.reach.private_redirects_allowed;
    if (Status s = check_url(url, options_.reach, hops == 0 ? "url" : "location"); !s.ok())
      return s.error();
    const Status done = hop(url, hops == 0);
    const std::string* location = answer_.header("location");
    if (!done.ok() && is_redirect(answer_.status) && follows && location != nullptr) {
      url = resolve(url, *location);
      continue;
    }
    if (!done.ok()) return done.error();
    return std::move(answer_);
  }
  return Error{
      Code::kIncompatible,
      shown_url(request_.url) + " redirects more than " + std::to_string(kRedirectsMax) + " times",
      "", ""};
}

Status Client::Exchange::hop(const std::string& url, bool first) {
  curl_easy_reset(handle_);  // keeps its connections
  answer_ = {};
  range_checked_ = enough_ = false;
  set_limits();
  set_request(url, first);
  if (request_.body) set_body();
  const CURLcode code = curl_easy_perform(handle_);
  long status = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  answer_.status = static_cast<int>(status);
  Status done = outcome(code);
  if (done.ok() && received_ != nullptr) done = check_range();
  if (done.ok() && received_ != nullptr) done = check_end();
  return done;
}

void Client::Exchange::set_limits() {
  const auto set = [this](auto option, auto value) { curl_easy_setopt(handle_, option, value); };
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_ERRORBUFFER, detail_.data());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.patience.connect.ms()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(options_.patience.silence.seconds())));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_XFERINFODATA, this);
  set(CURLOPT_OPENSOCKETFUNCTION, on_socket);
  set(CURLOPT_OPENSOCKETDATA, this);
  set(CURLOPT_PREREQFUNCTION, on_connected);  // a connection that is used again opens no socket
  set(CURLOPT_PREREQDATA, this);
  set(CURLOPT_PROXY, options_.reach.proxy.c_str());  // "": none, whatever the environment says
  set(CURLOPT_NOPROXY, "");
  if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
}

void Client::Exchange::set_request(const std::string& url, bool first) {
  const auto set = [this](auto option, auto value) { curl_easy_setopt(handle_, option, value); };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);  // as it was signed
  set(CURLOPT_USERAGENT, options_.user_agent.c_str());
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, on_data);
  set(CURLOPT_WRITEDATA, this);
  if (request_.method == "HEAD") set(CURLOPT_NOBODY, 1L);
  if (request_.method != "GET" && request_.method != "HEAD")
    set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  headers_ = std::make_unique<HeaderList>();
  headers_->add("Expect:");
  if (first) {
    for (const auto& [name, value] : request_.headers) headers_->add(name + ": " + value);
  }
  // Without a range where all is wanted: an empty object has none.
  const Bytes from = received_ ? received_->range.from + received_->bytes : Bytes();
  if (received_ != nullptr && (from.count() > 0 || received_->range.size)) {
    std::string range = "Range: bytes=" + std::to_string(from.count()) + "-";
    if (const auto size = received_->range.size)
      range += std::to_string((received_->range.from + *size).count() - 1);
    headers_->add(range);
  }
  set(CURLOPT_HTTPHEADER, headers_->list);
}

void Client::Exchange::set_body() {
  const auto set = [this](auto option, auto value) { curl_easy_setopt(handle_, option, value); };
  read_at_ = 0;
  set(CURLOPT_UPLOAD, 1L);  // the method is that of CURLOPT_CUSTOMREQUEST
  set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request_.body->size.count()));
  set(CURLOPT_READFUNCTION, on_read);
  set(CURLOPT_READDATA, this);
  set(CURLOPT_SEEKFUNCTION, on_seek);
  set(CURLOPT_SEEKDATA, this);
}

Status Client::Exchange::outcome(CURLcode code) const {
  const std::string where = shown_url(request_.url);
  if (failure_) return *failure_;
  if (!denied_.empty()) {
    return Error{Code::kPermissionDenied, where + " leads to " + denied_ + ", which is not public",
                 "", "allow private addresses where the server is your own"};
  }
  if (sink_stopped_ || stopped()) return Error{Code::kCancelled, where + " was cancelled", "", ""};
  if (code == CURLE_OPERATION_TIMEDOUT) {
    return Error{Code::kDeadlineExceeded, where + ": nothing moved for too long", "", ""};
  }
  if (code != CURLE_OK && !enough_) {
    const std::string why = detail_[0] != 0 ? detail_.data() : curl_easy_strerror(code);
    return Error{Code::kUnavailable, where + ": " + shown_text(why, false), "", ""};
  }
  if (answer_.status >= 200 && answer_.status < 300) return {};
  std::string message = where + " answered with status " + std::to_string(answer_.status);
  const std::string reason = options_.reason ? options_.reason(answer_.body) : "";
  if (!reason.empty()) message += ": " + shown_text(reason.substr(0, kReasonMax), false);
  if (answer_.status == 416 && received_ != nullptr) {
    return Error{Code::kDataLoss, where + " is shorter than announced", "", kOtherContent};
  }
  const Code failure = code_of(answer_.status);
  return Error{failure, message, "", remedy_of(failure)};
}

// Before its first byte is taken: the answer must be of the range that was asked for.
Status Client::Exchange::check_range() {
  if (range_checked_) return {};
  range_checked_ = true;
  Received& received = *received_;
  const std::string where = shown_url(request_.url);
  const Bytes from = received.range.from + received.bytes;
  const std::string* range_header = answer_.header("content-range");
  std::optional<Bytes> whole;
  if (answer_.status == 206) {
    const auto range = range_header ? read_content_range(*range_header) : std::nullopt;
    if (!range || range->first != from.count()) {
      return Error{Code::kDataLoss, where + " answered with another range than was asked for", "",
                   "use a server that answers ranges (HTTP 206)"};
    }
    whole = Bytes(range->whole);
  } else if (from.count() > 0) {
    return Error{Code::kIncompatible, where + " does not answer ranges", "",
                 "use a server that does (HTTP 206)"};
  } else {
    whole = content_length(answer_);
  }
  if (whole && received.range.whole && *whole != *received.range.whole) {
    return Error{Code::kDataLoss,
                 where + " has " + std::to_string(whole->count()) + " bytes instead of " +
                     std::to_string(received.range.whole->count()),
                 "", kOtherContent};
  }
  const std::string* etag = answer_.header("etag");
  if (etag != nullptr && !received.etag.empty() && received.etag != *etag) {
    return Error{Code::kDataLoss, where + " changed while it was read", "", kOtherContent};
  }
  if (etag != nullptr) received.etag = *etag;
  if (received.range.size) {
    received.wanted = received.range.size;
  } else if (whole) {
    received.wanted = *whole - received.range.from;
  }
  return {};
}

// The connection ended in order, but with less than was asked for.
Status Client::Exchange::check_end() const {
  if (!received_->wanted || received_->bytes >= *received_->wanted) return {};
  return Error{Code::kDataLoss,
               shown_url(request_.url) + " ends at byte " +
                   std::to_string((received_->range.from + received_->bytes).count()) + " of " +
                   std::to_string((received_->range.from + *received_->wanted).count()),
               "", kOtherContent};
}

// ---- what libcurl calls

std::size_t Client::Exchange::on_header(char* data, std::size_t size, std::size_t count,
                                        void* self) {
  auto& answer = static_cast<Exchange*>(self)->answer_;
  const std::string_view line(data, size * count);
  const std::size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {
    answer.headers.clear();  // of an interim answer
  } else if (colon != line.npos && answer.headers.size() < kHeadersMax) {
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    answer.headers[name] = std::string(trimmed(line.substr(colon + 1)));
  }
  return line.size();
}

std::size_t Client::Exchange::on_data(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<Exchange*>(self)->take(
      std::as_bytes(std::span<const char>(data, size * count)));
}

// Another number than that of the bytes ends the transfer.
std::size_t Client::Exchange::take(std::span<const std::byte> data) {
  constexpr std::size_t kStop = 0;
  long status = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  answer_.status = static_cast<int>(status);
  if (received_ == nullptr || status < 200 || status > 299) {
    if (answer_.body.size() + data.size() > kAnswerMax) {
      failure_ = Error{Code::kIncompatible,
                       shown_url(request_.url) + " sends more than was asked for", "", ""};
      return kStop;
    }
    answer_.body.append(reinterpret_cast<const char*>(data.data()), data.size());
    return data.size();
  }
  if (Status s = check_range(); !s.ok()) return failure_ = s.error(), kStop;
  auto part = data;
  if (received_->wanted) {
    const auto missing = static_cast<std::size_t>((*received_->wanted - received_->bytes).count());
    part = part.first(std::min(part.size(), missing));
  }
  if (!part.empty() && !(*received_->sink)(part)) return sink_stopped_ = true, kStop;
  received_->bytes += Bytes(static_cast<std::int64_t>(part.size()));
  // A server that answers with the whole file where a part was asked for.
  if (part.size() < data.size()) return enough_ = true, kStop;
  return data.size();
}

std::size_t Client::Exchange::on_read(char* into, std::size_t size, std::size_t count, void* self) {
  auto& exchange = *static_cast<Exchange*>(self);
  const Body& body = *exchange.request_.body;
  const auto missing = static_cast<std::size_t>(body.size.count() - exchange.read_at_);
  const std::size_t length = std::min(size * count, missing);
  if (length == 0) return 0;
  const auto piece = std::as_writable_bytes(std::span<char>(into, length));
  if (Status s = body.read(exchange.read_at_, piece); !s.ok()) {
    exchange.failure_ = s.error();
    return CURL_READFUNC_ABORT;
  }
  exchange.read_at_ += static_cast<std::int64_t>(length);
  return length;
}

int Client::Exchange::on_seek(void* self, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Exchange*>(self)->read_at_ = offset;
  return CURL_SEEKFUNC_OK;
}

int Client::Exchange::on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent) {
  auto& exchange = *static_cast<Exchange*>(self);
  const auto now = std::chrono::steady_clock::now();
  if (exchange.request_.on_moved && now - exchange.said_at_ >= std::chrono::seconds(1)) {
    exchange.said_at_ = now;
    exchange.request_.on_moved(Bytes(sent));
  }
  return exchange.stopped() ? 1 : 0;
}

bool Client::Exchange::may_reach(const sockaddr& address) {
  const bool is_proxy = !options_.reach.proxy.empty();
  if (is_proxy || private_allowed_ || is_public(address)) return true;
  denied_ = to_text(address);
  return false;
}

curl_socket_t Client::Exchange::on_socket(void* self, curlsocktype, curl_sockaddr* address) {
  if (!static_cast<Exchange*>(self)->may_reach(address->addr)) return CURL_SOCKET_BAD;
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

int Client::Exchange::on_connected(void* self, char* address, char*, int, int) {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  const bool is_v4 = ::inet_pton(AF_INET, address, &v4.sin_addr) == 1;
  if (!is_v4 && ::inet_pton(AF_INET6, address, &v6.sin6_addr) != 1) return CURL_PREREQFUNC_ABORT;
  const auto& found =
      is_v4 ? reinterpret_cast<const sockaddr&>(v4) : reinterpret_cast<const sockaddr&>(v6);
  const bool may = static_cast<Exchange*>(self)->may_reach(found);
  return may ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

}  // namespace shoal::objects
