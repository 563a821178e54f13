#include "agent/host/metrics_page.h"

#include <exception>
#include <utility>
#include <vector>

#include <prometheus/exposer.h>
#include <unistd.h>

#include "base/host_port.h"
#include "wire/tcp_socket.h"

namespace shoal::agent {
namespace {

constexpr const char* kField = "--metrics";
constexpr const char* kRequestLimitMs = "5000";

// CivetWeb does not report why it cannot listen, so the address is tried first.
Status try_address(const std::string& bind) {
  const auto listener = wire::listen_at(bind);
  if (listener.ok()) {
    ::close(*listener);
    return {};
  }
  Error error = listener.error();
  error.field = kField;
  return error;
}

Error cannot_serve(const std::string& bind, const std::string& why) {
  return {Code::kUnavailable, "cannot listen on " + bind + ": " + why, kField,
          "give another address, for example 127.0.0.1:9100"};
}

}  // namespace

MetricsPage::MetricsPage(std::unique_ptr<prometheus::Exposer> exposer, std::string address)
    : exposer_(std::move(exposer)), address_(std::move(address)) {}

MetricsPage::~MetricsPage() = default;

Result<std::unique_ptr<MetricsPage>> MetricsPage::open(
    const std::string& bind, const std::shared_ptr<prometheus::Collectable>& metrics) {
  auto address = read_host_port(bind);
  if (!address) {
    return Error{Code::kValidation, "must be host:port, got '" + bind + "'", kField,
                 "for example 127.0.0.1:9100"};
  }
  if (const Status free = try_address(bind); !free.ok()) return free.error();
  const std::vector<std::string> numbers = wire::numbers_of(bind);
  if (numbers.empty()) return cannot_serve(bind, "no such address");
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", numbers.front(), "num_threads", "2",
                                 "request_timeout_ms", kRequestLimitMs});
    exposer->RegisterCollectable(metrics);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (ports.empty()) return cannot_serve(bind, "no port was opened");
    address->port = static_cast<std::uint16_t>(ports.front());
    return std::unique_ptr<MetricsPage>(new MetricsPage(std::move(exposer), address->text()));
  } catch (const std::exception& error) {
    return cannot_serve(bind, error.what());
  }
}

}  // namespace shoal::agent
