#include "coordinator/service/webhooks/post.h"

#include <memory>

#include <curl/curl.h>

namespace shoal::coordinator {
namespace {

struct UrlParts {
  explicit UrlParts(const std::string& text) : url(curl_url(), curl_url_cleanup) {
    is_good = url && curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
  }
  std::string get(CURLUPart part) const {
    char* found = nullptr;
    if (curl_url_get(url.get(), part, &found, 0) != CURLUE_OK) return {};
    std::string text(found);
    curl_free(found);
    return text;
  }
  std::unique_ptr<CURLU, void (*)(CURLU*)> url;
  bool is_good = false;
};

bool is_this_host(const std::string& host) {
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

std::size_t drop_bytes(char*, std::size_t, std::size_t size, void*) { return size; }

int is_to_end(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::stop_token*>(stop)->stop_requested() ? 1 : 0;
}

struct HeaderList {
  explicit HeaderList(const std::vector<std::pair<std::string, std::string>>& headers) {
    add("Content-Type: application/json");
    add("Expect:");
    for (const auto& [name, value] : headers) add(name + ": " + value);
  }
  ~HeaderList() { curl_slist_free_all(list); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
  curl_slist* list = nullptr;
};

void set_options(CURL* curl, const Post& post, const HeaderList& headers,
                 const std::stop_token& stop, char* detail) {
  curl_easy_setopt(curl, CURLOPT_URL, post.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.list);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "shoal-coordinator");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(post.limit.ms()));
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, is_to_end);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &stop);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_bytes);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(post.body.size()));
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, post.body.c_str());
}

Error not_taken(std::string why) { return {Code::kUnavailable, std::move(why), "", ""}; }

}  // namespace

Status check_webhook_url(const std::string& url, bool clear_allowed) {
  const UrlParts parts(url);
  const auto refused = [](std::string message, std::string remedy) {
    return Error{Code::kValidation, std::move(message), "--webhook", std::move(remedy)};
  };
  const std::string scheme = parts.is_good ? parts.get(CURLUPART_SCHEME) : "";
  if (scheme != "https" && scheme != "http") {
    return refused("must be a URL of https, got '" + url + "'",
                   "for example https://hooks.example/shoal");
  }
  if (!parts.get(CURLUPART_USER).empty() || !parts.get(CURLUPART_PASSWORD).empty()) {
    return refused("has a name or a password in it", "receivers check the signature instead");
  }
  if (scheme == "http" && !clear_allowed && !is_this_host(parts.get(CURLUPART_HOST))) {
    return refused("would send events in clear: '" + url + "'",
                   "use https, or --insecure-http on a network that you trust");
  }
  return {};
}

Status send(const Post& post, const std::stop_token& stop) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
  if (global != CURLE_OK || !handle) return not_taken("libcurl cannot start");
  const HeaderList headers(post.headers);
  char detail[CURL_ERROR_SIZE] = "";
  set_options(handle.get(), post, headers, stop, detail);
  const CURLcode code = curl_easy_perform(handle.get());
  if (code != CURLE_OK) return not_taken(detail[0] != 0 ? detail : curl_easy_strerror(code));
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200 && status < 300) return {};
  return not_taken("it answered with status " + std::to_string(status));
}

}  // namespace shoal::coordinator
