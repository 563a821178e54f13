// Gloo's ring all-reduce over TCP, as a yardstick. Only built where gloo is installed.
#pragma once

#include <memory>
#include <span>
#include <string>

namespace shoal::bench {

class GlooRing {
 public:
  virtual ~GlooRing() = default;
  // Sums in place over all processes.
  virtual void all_reduce(std::span<float> values) = 0;
};

// Blocks until all `size` processes have met in `folder`, an empty directory. `host` is an address
// of this process.
std::unique_ptr<GlooRing> join_gloo_ring(int rank, int size, const std::string& folder,
                                         const std::string& host);

}  // namespace shoal::bench
