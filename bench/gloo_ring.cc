// See gloo_ring.h.
#include "bench/gloo_ring.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

namespace shoal::bench {
namespace {

class Ring final : public GlooRing {
 public:
  Ring(int rank, int size, const std::string& folder, const std::string& host) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = host;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(folder);
    context_ = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context_->connectFullMesh(store, device);
  }

  void all_reduce(std::span<float> values) override {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace

std::unique_ptr<GlooRing> join_gloo_ring(int rank, int size, const std::string& folder,
                                         const std::string& host) {
  return std::make_unique<Ring>(rank, size, folder, host);
}

}  // namespace shoal::bench
