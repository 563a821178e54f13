#include "objects/presign.h"

#include <array>
#include <ctime>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"
#include "base/text.h"
#include "identity/hash256.h"

namespace shoal::objects {
namespace {

using Hash = std::string;  // 32 bytes

const unsigned char* bytes_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Hash hmac(const std::string& key, const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> code;
  unsigned size = 0;
  SHOAL_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(text),
                   text.size(), code.data(), &size) != nullptr);
  return {reinterpret_cast<const char*>(code.data()), size};
}

// "20130524T000000Z"
std::string time_text(Instant now) {
  const std::time_t seconds = now.ns / 1'000'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y%m%dT%H%M%SZ", &parts)};
}

std::string query_text(const std::map<std::string, std::string>& query) {
  std::string text;
  for (const auto& [name, value] : query) {
    if (!text.empty()) text += '&';
    text += percent_encoded(name, false) + "=" + percent_encoded(value, false);
  }
  return text;
}

}  // namespace

std::string presign(const Location& location, const Credentials& credentials, const ToSign& request,
                    Instant now) {
  const std::string url = url_of(location, request.key);
  const std::size_t host_at = url.find("//") + 2, path_at = url.find('/', host_at);
  std::map<std::string, std::string> headers = request.headers;
  headers["host"] = url.substr(host_at, path_at - host_at);
  std::string header_lines, header_names;
  for (const auto& [name, value] : headers) {
    header_lines += name + ":" + value + "\n";
    header_names += (header_names.empty() ? "" : ";") + name;
  }
  const std::string time = time_text(now), date = time.substr(0, 8);
  const std::string scope = date + "/" + location.region + "/s3/aws4_request";
  // In the order of their encoded names, which for these names is that of the map.
  std::map<std::string, std::string> query = request.query;
  query["X-Amz-Algorithm"] = "AWS4-HMAC-SHA256";
  query["X-Amz-Credential"] = credentials.key_id + "/" + scope;
  query["X-Amz-Date"] = time;
  query["X-Amz-Expires"] = std::to_string(request.life.ns / 1'000'000'000);
  query["X-Amz-SignedHeaders"] = header_names;
  if (!credentials.session_token.empty()) query["X-Amz-Security-Token"] = credentials.session_token;
  const std::string canonical = request.method + "\n" + url.substr(path_at) + "\n" +
                                query_text(query) + "\n" + header_lines + "\n" + header_names +
                                "\nUNSIGNED-PAYLOAD";
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" +
                              identity::to_hex(identity::sha256(canonical));
  const Hash key = hmac(hmac(hmac(hmac("AWS4" + credentials.secret, date), location.region), "s3"),
                        "aws4_request");
  return url + "?" + query_text(query) + "&X-Amz-Signature=" + hex_of(hmac(key, to_sign));
}

}  // namespace shoal::objects
