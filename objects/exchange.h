// One request and its answer over one handle of libcurl, without retries: the redirects, the check
// of addresses, the ranges. What objects/http.cc is made of; nothing else includes it.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <curl/curl.h>

#include "objects/http.h"

namespace shoal::objects {

// How far a GET is, over all its tries.
struct Received {
  Client::Range range;
  const Client::Sink* sink = nullptr;
  Bytes bytes;                  // handed to the sink
  std::optional<Bytes> wanted;  // in all, once the length is known
  std::string etag;
};

class Client::Exchange {
 public:
  // `received`: null for requests whose answer is small and kept.
  Exchange(CURL* handle, const Client& client, const Request& request, Received* received);

  Result<Answer> run();

 private:
  Status hop(const std::string& url, bool first);
  void set_request(const std::string& url, bool first);
  void set_body();
  void set_limits();
  Status outcome(CURLcode code) const;
  Status check_range();
  Status check_end() const;
  bool stopped() const { return client_.stop_.stop_requested(); }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_data(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_read(char* into, std::size_t size, std::size_t count, void* self);
  static int on_seek(void* self, curl_off_t offset, int origin);
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent);
  static curl_socket_t on_socket(void* self, curlsocktype purpose, curl_sockaddr* address);
  static int on_connected(void* self, char* address, char*, int, int);
  std::size_t take(std::span<const std::byte> data);
  bool may_reach(const sockaddr& address);

  CURL* const handle_;
  const Client& client_;
  const ClientOptions& options_;
  const Request& request_;
  Received* const received_;
  struct HeaderList {
    ~HeaderList() { curl_slist_free_all(list); }
    void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
    curl_slist* list = nullptr;
  };
  std::unique_ptr<HeaderList> headers_;
  Answer answer_;
  std::array<char, CURL_ERROR_SIZE> detail_{};
  bool private_allowed_ = false;  // in this hop
  bool range_checked_ = false, enough_ = false, sink_stopped_ = false;
  std::int64_t read_at_ = 0;
  std::chrono::steady_clock::time_point said_at_ = std::chrono::steady_clock::now();
  std::string denied_;            // the address that was not public
  std::optional<Error> failure_;  // of the body, or of what the answer's head says
};

}  // namespace shoal::objects
