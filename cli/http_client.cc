// One libcurl easy handle per thread. It is reset for each request, so that it keeps nothing but
// its connections: an upload makes thousands of requests. The coordinator is reached directly,
// whatever http_proxy says; an object store through SHOAL_OUTBOUND_PROXY, if that is set.
#include "cli/http_client.h"

#include <cstdlib>
#include <cstring>
#include <memory>

#include <curl/curl.h>

#include "cli/terminal.h"

namespace shoal::cli {
namespace {

constexpr std::size_t kBodyMax = std::size_t{64} << 20;

struct Transfer {
  CURL* handle = nullptr;
  HttpResponse response;
  const HttpSink* sink = nullptr;
  bool stopped_by_sink = false;
  bool too_large = false;
};

std::size_t on_bytes(char* data, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  long status = 0;
  curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  const bool success = status >= 200 && status < 300;
  if (*transfer.sink && success) {
    transfer.stopped_by_sink = !(*transfer.sink)(static_cast<int>(status), {data, size});
    return transfer.stopped_by_sink ? 0 : size;
  }
  transfer.too_large = transfer.response.body.size() + size > kBodyMax;
  if (transfer.too_large) return 0;
  transfer.response.body.append(data, size);
  return size;
}

int on_progress(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return interrupted() ? 1 : 0;
}

struct HeaderList {
  curl_slist* list = nullptr;
  ~HeaderList() { curl_slist_free_all(list); }
  void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
};

std::string origin_of(const std::string& url) {
  const auto scheme = url.find("://");
  const auto slash = url.find('/', scheme == std::string::npos ? 0 : scheme + 3);
  return url.substr(0, slash);
}

Error error_of(CURLcode code, const HttpRequest& request, const char* detail) {
  const std::string origin = origin_of(request.url);
  if (code == CURLE_ABORTED_BY_CALLBACK) return {Code::kCancelled, "interrupted", "", ""};
  if (code == CURLE_OPERATION_TIMEDOUT) {
    return {Code::kDeadlineExceeded, origin + " did not answer in time", "",
            "look at the coordinator's log and at /readyz"};
  }
  // An answer that is not HTTP/1 counts as one of HTTP/0.9, which libcurl has no protocol for.
  const bool spoke = code == CURLE_UNSUPPORTED_PROTOCOL && std::strstr(detail, "HTTP/0.9");
  if (spoke || code == CURLE_WEIRD_SERVER_REPLY) {
    return {Code::kInvalidArgument, "what answers at " + origin + " does not speak HTTP", "--addr",
            "is it the gRPC address, which is for agents? give the HTTP address, by default port "
            "7070"};
  }
  // The gRPC port ends a connection without TLS like this.
  if (code == CURLE_GOT_NOTHING) {
    return {Code::kUnavailable, origin + " closes the connection without an answer", "--addr",
            "is it the gRPC address, which is for agents? give the HTTP address, by default port "
            "7070"};
  }
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL) {
    return {Code::kInvalidArgument, "not an address: '" + origin + "'", "--addr",
            "give it as http://host:port"};
  }
  if (code == CURLE_SSL_CACERT_BADFILE) {
    return {Code::kInvalidArgument, "cannot be read as certificates: '" + request.ca + "'", "--ca",
            "give the cluster's CA: tls/roots.pem of the coordinator's data folder"};
  }
  if (code == CURLE_PEER_FAILED_VERIFICATION) {
    return {Code::kUnauthenticated,
            "the certificate of " + origin +
                " is not trusted: " + (*detail ? detail : curl_easy_strerror(code)),
            "--ca",
            "give the cluster's CA, tls/roots.pem of the coordinator's data folder, and the name "
            "or address that its certificate has (--host-name of shoal-coordinator)"};
  }
  return {
      Code::kUnavailable,
      "no coordinator answers at " + origin + ": " + (*detail ? detail : curl_easy_strerror(code)),
      "", "start one with `shoal up --agents 4`, or name it with --addr or SHOAL_ADDR"};
}

void set_options(Transfer& transfer, const HttpRequest& request, HeaderList& headers,
                 char* detail) {
  CURL* handle = transfer.handle;
  headers.add("Accept: " + request.accept);
  headers.add("Expect:");
  if (!request.content_type.empty()) headers.add("Content-Type: " + request.content_type);
  if (!request.token.empty()) headers.add("Authorization: Bearer " + request.token);
  if (!request.ca.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, request.ca.c_str());
  curl_easy_setopt(handle, CURLOPT_PROXY, request.proxy.c_str());  // "": none
  curl_easy_setopt(handle, CURLOPT_NOPROXY, "");
  if (!request.last_event_id.empty()) headers.add("Last-Event-ID: " + request.last_event_id);
  curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.list);
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "shoal");
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.silence_limit_s));
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_bytes);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &transfer);
  if (request.range_from > 0) {  // CURLOPT_RESUME_FROM would refuse an answer with the whole file
    curl_easy_setopt(handle, CURLOPT_RANGE, (std::to_string(request.range_from) + "-").c_str());
  }
  if (request.method != "GET") {
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request.body.c_str());
  }
}

Result<HttpResponse> send_once(const HttpRequest& request, const HttpSink& sink,
                               std::string& elsewhere) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (global != CURLE_OK) return Error{Code::kInternal, "libcurl cannot start", "", ""};
  static thread_local const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(),
                                                                          curl_easy_cleanup);
  if (!handle) return Error{Code::kResourceExhausted, "libcurl is out of memory", "", ""};
  curl_easy_reset(handle.get());

  Transfer transfer;
  transfer.handle = handle.get();
  transfer.sink = &sink;
  HeaderList headers;
  char detail[CURL_ERROR_SIZE] = "";
  set_options(transfer, request, headers, detail);

  const CURLcode code = curl_easy_perform(handle.get());
  if (transfer.too_large) {
    return Error{Code::kResourceExhausted, "the answer of " + request.url + " is over 64 MiB", "",
                 ""};
  }
  if (code != CURLE_OK && !transfer.stopped_by_sink) return error_of(code, request, detail);
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  transfer.response.status = static_cast<int>(status);
  const char* type = nullptr;
  curl_easy_getinfo(handle.get(), CURLINFO_CONTENT_TYPE, &type);
  transfer.response.content_type = type ? type : "";
  const char* url = nullptr;
  curl_easy_getinfo(handle.get(), CURLINFO_REDIRECT_URL, &url);
  if (status == 307 && url != nullptr) elsewhere = url;
  return std::move(transfer.response);
}

}  // namespace

// A file of a checkpoint may lie in an object store: the coordinator says where. One step, without
// what is for the coordinator alone: the token and its CA.
Result<HttpResponse> send(const HttpRequest& request, const HttpSink& sink) {
  std::string elsewhere;
  auto response = send_once(request, sink, elsewhere);
  if (!response.ok() || elsewhere.empty() || request.method != "GET") return response;
  HttpRequest there = request;
  there.url = elsewhere;
  there.accept = "*/*";
  there.token.clear();
  there.ca.clear();
  there.proxy = outbound_proxy();
  auto got = send_once(there, sink, elsewhere);
  if (got.ok() || got.error().code == Code::kCancelled) return got;
  return Error{got.error().code,
               "the file lies in an object store that does not answer: " + origin_of(there.url), "",
               "ask for it from a host that reaches the store"};
}

std::string outbound_proxy() {
  const char* value = std::getenv("SHOAL_OUTBOUND_PROXY");
  return value == nullptr ? "" : value;
}

std::string url_escape(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

}  // namespace shoal::cli
