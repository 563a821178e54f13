#include "objects/reach.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/wire_text.h"

namespace shoal::objects {
namespace {

struct Network {
  std::uint32_t address;
  int bits;
};

constexpr std::uint32_t ip(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  return a << 24 | b << 16 | c << 8;
}

// RFC 6890 and the registry that it began.
constexpr Network kNotPublic[] = {
    {ip(0, 0, 0), 8},      {ip(10, 0, 0), 8},    {ip(100, 64, 0), 10},   {ip(127, 0, 0), 8},
    {ip(169, 254, 0), 16}, {ip(172, 16, 0), 12}, {ip(192, 0, 0), 24},    {ip(192, 0, 2), 24},
    {ip(192, 168, 0), 16}, {ip(198, 18, 0), 15}, {ip(198, 51, 100), 24}, {ip(203, 0, 113), 24},
    {ip(224, 0, 0), 4},    {ip(240, 0, 0), 4}};

bool is_public_v4(std::uint32_t address) {
  for (const Network& network : kNotPublic) {
    if ((address ^ network.address) >> (32 - network.bits) == 0) return false;
  }
  return true;
}

std::uint32_t v4_at(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
}

// Of IPv6 only 2000::/3 is given out; within it 2001:db8::/32 is for examples, 2002::/16 (6to4) and
// 2001::/32 (Teredo) carry an IPv4 address, as do ::ffff:0:0/96 and 64:ff9b::/96.
bool is_public_v6(const std::uint8_t* bytes) {
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::array<std::uint8_t, 12> kTranslated{0, 0x64, 0xff, 0x9b};
  const auto begins = [&](const auto& prefix) {
    return std::memcmp(bytes, prefix.data(), prefix.size()) == 0;
  };
  if (begins(kMapped) || begins(kTranslated)) return is_public_v4(v4_at(bytes + 12));
  if ((bytes[0] & 0xe0) != 0x20) return false;
  if (bytes[0] == 0x20 && bytes[1] == 0x02) return is_public_v4(v4_at(bytes + 2));
  const bool special = bytes[0] == 0x20 && bytes[1] == 0x01 &&
                       ((bytes[2] == 0x0d && bytes[3] == 0xb8) || (bytes[2] | bytes[3]) == 0);
  return !special;
}

struct UrlParts {
  explicit UrlParts(const std::string& text) : url(curl_url(), curl_url_cleanup) {
    is_good = url && curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
  }
  std::string get(CURLUPart part) const {
    char* found = nullptr;
    if (!is_good || curl_url_get(url.get(), part, &found, 0) != CURLUE_OK) return {};
    std::string text(found);
    curl_free(found);
    return text;
  }
  std::unique_ptr<CURLU, void (*)(CURLU*)> url;
  bool is_good = false;
};

}  // namespace

bool is_public(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return is_public_v4(ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr));
  }
  if (address.sa_family != AF_INET6) return false;
  return is_public_v6(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr.s6_addr);
}

std::string to_text(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes =
      address.sa_family == AF_INET6
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr)
          : &reinterpret_cast<const sockaddr_in&>(address).sin_addr;
  const bool known = address.sa_family == AF_INET6 || address.sa_family == AF_INET;
  if (!known || ::inet_ntop(address.sa_family, bytes, text.data(), text.size()) == nullptr)
    return "of an unknown family";
  return text.data();
}

Status check_url(const std::string& url, const Reach& reach, const std::string& field) {
  const UrlParts parts(url);
  const auto refused = [&](std::string message, std::string remedy) {
    return Error{Code::kValidation, std::move(message), field, std::move(remedy)};
  };
  const std::string scheme = parts.get(CURLUPART_SCHEME);
  if (scheme != "https" && scheme != "http") {
    return refused("must be a URL of https, got '" + shown_url(url) + "'",
                   "for example https://files.example/shard");
  }
  if (!parts.get(CURLUPART_USER).empty() || !parts.get(CURLUPART_PASSWORD).empty()) {
    return refused("has a name or a password in it", "leave them out");
  }
  if (scheme == "http" && !reach.clear_allowed && !names_this_host(url)) {
    return refused("would travel in clear: '" + shown_url(url) + "'",
                   "use https, or --insecure-http on a network that you trust");
  }
  return {};
}

Status check_proxy(const std::string& proxy, const std::string& field) {
  if (proxy.empty() || is_origin_text(proxy)) return {};
  return Error{Code::kValidation, "must be http(s)://host:port, got '" + shown_url(proxy) + "'",
               field, "for example http://proxy.example:3128; leave it out for none"};
}

std::string shown_url(const std::string& url) {
  return shown_text(url.substr(0, url.find_first_of("?#")), false);
}

bool names_this_host(const std::string& url) {
  const std::string host = UrlParts(url).get(CURLUPART_HOST);
  in_addr address{};
  if (host == "localhost" || host == "[::1]") return true;
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1 && host.starts_with("127.");
}

std::string resolve(const std::string& url, const std::string& location) {
  UrlParts parts(url);
  if (!parts.is_good ||
      curl_url_set(parts.url.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK) {
    return {};
  }
  return parts.get(CURLUPART_URL);
}

}  // namespace shoal::objects
