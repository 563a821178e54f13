#include "agent/host/network.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "threads/descriptor.h"

namespace shoal::agent {
namespace {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<AddressList> resolve(const std::string& host, const std::string& port, int type, int flags) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = type;
  hints.ai_flags = flags;
  const int failure = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (failure != 0) {
    return Error{Code::kUnavailable, "cannot resolve '" + host + "': " + gai_strerror(failure),
                 "--coordinator", "check the name of the host"};
  }
  return AddressList(found, freeaddrinfo);
}

bool can_listen(const std::string& host, int port) {
  const auto list = resolve(host, std::to_string(port), SOCK_STREAM, AI_NUMERICHOST | AI_PASSIVE);
  if (!list.ok()) return false;
  const Descriptor socket(::socket((*list)->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  return bind(socket.get(), (*list)->ai_addr, (*list)->ai_addrlen) == 0 &&
         listen(socket.get(), 1) == 0;
}

bool parse_port(std::string_view text, int& port) {
  const auto read = read_port(text);
  port = read.value_or(0);
  return read.has_value();
}

}  // namespace

Result<HostPort> address_to_dial(const std::string& address, const std::string& flag) {
  auto read = read_host_port(address);
  if (read && read->port > 0) return *std::move(read);
  return Error{Code::kValidation, "must be host:port, got '" + address + "'", flag,
               "e.g. 10.0.0.1:7071"};
}

Result<std::string> local_address_towards(const std::string& address) {
  const auto far = address_to_dial(address, "--coordinator");
  if (!far.ok()) return far.error();
  const auto list = resolve(far->host, std::to_string(far->port), SOCK_DGRAM, 0);
  if (!list.ok()) return list.error();
  for (const addrinfo* each = list->get(); each != nullptr; each = each->ai_next) {
    const Descriptor socket(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    std::array<char, NI_MAXHOST> text{};
    if (connect(socket.get(), each->ai_addr, each->ai_addrlen) == 0 &&
        getsockname(socket.get(), reinterpret_cast<sockaddr*>(&local), &length) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&local), length, text.data(), text.size(), nullptr,
                    0, NI_NUMERICHOST) == 0) {
      return std::string(text.data());
    }
  }
  return Error{Code::kUnavailable, "no route to " + address, "--host",
               "give the address that peers dial"};
}

Status check_peer_host(const std::string& host) {
  const auto list = resolve(host, "0", SOCK_STREAM, 0);
  if (list.ok()) return {};
  return Error{Code::kValidation,
               "must be an address of this host without a port: " + list.error().message, "--host",
               "e.g. 10.0.0.7, or leave it out for the one towards the coordinator"};
}

Result<PortRange> parse_port_range(const std::string& text) {
  PortRange range;
  const auto dash = text.find('-');
  const std::string_view view(text);
  const bool first = parse_port(view.substr(0, dash), range.first);
  range.last = range.first;
  const bool last = dash == std::string::npos || parse_port(view.substr(dash + 1), range.last);
  const bool ordered = range.first == range.last || (range.first > 0 && range.first < range.last);
  if (first && last && ordered) return range;
  return Error{Code::kValidation,
               "must be a range like 7100-7199, one port, or 0 for any, got '" + text + "'",
               "--peer-ports", ""};
}

std::string listen_host_for(const std::string& host) {
  if (host == "localhost" || host.starts_with("127.")) return "127.0.0.1";
  if (host == "::1") return "::1";
  return host.find(':') != std::string::npos ? "::" : "0.0.0.0";
}

Result<int> free_port(const PortRange& range, const std::string& listen_host,
                      const std::vector<int>& taken, std::uint64_t seed) {
  if (range.first == 0) return 0;
  const int count = range.last - range.first + 1;
  const int start = static_cast<int>(seed % static_cast<std::uint64_t>(count));
  for (int i = 0; i < count; ++i) {
    const int port = range.first + (start + i) % count;
    const bool ours = std::find(taken.begin(), taken.end(), port) != taken.end();
    if (!ours && can_listen(listen_host, port)) return port;
  }
  return Error{
      Code::kResourceExhausted,
      "no free port from " + std::to_string(range.first) + " to " + std::to_string(range.last),
      "--peer-ports", "give a wider range, or 0"};
}

}  // namespace shoal::agent
