#include "coordinator/service/people/client_name.h"

#include <algorithm>
#include <array>

#include <arpa/inet.h>

namespace shoal::coordinator {

std::string client_of(const std::string& ip_address, bool is_this_host) {
  if (is_this_host) return kThisHost;
  in6_addr v6{};
  if (::inet_pton(AF_INET6, ip_address.c_str(), &v6) != 1) return ip_address;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    ::inet_ntop(AF_INET, &v6.s6_addr[12], text.data(), text.size());
    return text.data();
  }
  std::fill(v6.s6_addr + 8, v6.s6_addr + 16, std::uint8_t{0});
  ::inet_ntop(AF_INET6, &v6, text.data(), text.size());
  return std::string(text.data()) + "/64";
}

}  // namespace shoal::coordinator
