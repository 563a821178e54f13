// Answers scrapes of Prometheus: GET /metrics over plain HTTP, without a login (prometheus-cpp's
// Exposer). Whoever reaches the port reads the metrics, so it is bound to loopback or to the
// network of the Prometheus server. Threads: two of its own. Its end joins them.
#pragma once

#include <memory>
#include <string>

#include <prometheus/collectable.h>

#include "base/result.h"

namespace prometheus {
class Exposer;
}

namespace shoal::agent {

class MetricsPage {
 public:
  // `bind` is host:port; port 0 takes a free one. Errors have the field --metrics: kValidation for
  // another text, kUnavailable for a port that is taken and an address that this host lacks.
  static Result<std::unique_ptr<MetricsPage>> open(
      const std::string& bind, const std::shared_ptr<prometheus::Collectable>& metrics);
  ~MetricsPage();

  const std::string& address() const { return address_; }  // with the port that it listens on

 private:
  MetricsPage(std::unique_ptr<prometheus::Exposer> exposer, std::string address);

  const std::unique_ptr<prometheus::Exposer> exposer_;
  const std::string address_;
};

}  // namespace shoal::agent
