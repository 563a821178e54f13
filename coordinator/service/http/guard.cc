#include "coordinator/service/http/guard.h"

#include <algorithm>
#include <cctype>

#include "base/host_port.h"
#include "coordinator/service/http/asio.h"

namespace shoal::coordinator::rest {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Without port and brackets, in lower case.
std::string host_of(std::string_view header) {
  if (header.starts_with('[')) return lower(header.substr(1, header.find(']') - 1));
  return lower(header.substr(0, header.find(':')));
}

Error not_an_address(const std::string& text) {
  return Error{Code::kValidation, "\"" + text + "\" is not an address to listen on", "http.bind",
               "use an IP address and a port: 127.0.0.1:7070, [::1]:7070, 0.0.0.0:7070"};
}

}  // namespace

Result<BindAddress> parse_bind(const std::string& text) {
  auto read = read_host_port(text);
  if (!read) return not_an_address(text);
  if (read->host == "localhost") read->host = "127.0.0.1";
  boost::system::error_code parse_error;
  const auto address = http_io::net::ip::make_address(read->host, parse_error);
  if (parse_error) return not_an_address(text);
  return BindAddress{std::move(read->host), read->port, address.is_loopback()};
}

bool host_allowed(std::string_view host_header, const std::vector<std::string>& names) {
  if (host_header.empty()) return true;
  const std::string host = host_of(host_header);
  boost::system::error_code error;
  http_io::net::ip::make_address(host, error);
  if (!error || host == "localhost" || host.ends_with(".localhost")) return true;
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return lower(name) == host; });
}

bool origin_allowed(std::string_view origin, std::string_view host_header,
                    std::string_view public_origin) {
  if (origin.empty()) return true;
  if (!public_origin.empty() && lower(origin) == public_origin) return true;
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && lower(origin.substr(scheme + 3)) == lower(host_header);
}

std::string host_of_origin(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return host_of(scheme == std::string_view::npos ? origin : origin.substr(scheme + 3));
}

Status check_line(const Asked& asked) {
  const bool clear = !asked.for_proof && (asked.from_this_host || asked.clear_allowed);
  if (asked.over_tls || clear) return {};
  return Error{Code::kPermissionDenied, "a secret may not be sent over plain HTTP", "",
               "use https; the certificate is of the cluster's CA"};
}

std::string_view usable_request_id(std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  return plain && text.size() <= 64 ? text : std::string_view();
}

}  // namespace shoal::coordinator::rest
