// shoal-kernels: how fast the CUDA kernels of the outer step are, and whether they give the bytes
// of the CPU. Where nothing can be measured it says so, which is no failure.
#include <cstdio>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/kernels/kernels_bench.h"
#if SHOAL_HAVE_CUDA
#include "outer_opt/cuda/device_codec.h"
#endif

namespace shoal::bench {
namespace {

// Why nothing can be measured; null: it can.
const char* obstacle() {
#if SHOAL_HAVE_CUDA
  return outer_opt::cuda::device_count() > 0 ? nullptr : "no CUDA device on this machine";
#else
  return "built without a CUDA toolkit (SHOAL_CUDA)";
#endif
}

void say(const char* obstacle, bool json) {
  if (!json) {
    std::printf("kernels: nothing was measured: %s\n", obstacle);
    return;
  }
  const nlohmann::ordered_json text = {{"name", "kernels"},
                                       {"device", nullptr},
                                       {"reason", obstacle},
                                       {"results", nlohmann::json::array()}};
  std::printf("%s\n", text.dump(2).c_str());
}

int measure(const KernelsOptions& options) {
#if SHOAL_HAVE_CUDA
  const Status done = run_kernels(options);
  if (done) return 0;
  std::fprintf(stderr, "shoal-kernels: %s\n", to_string(done.error()).c_str());
#else
  static_cast<void>(options);
#endif
  return 1;
}

int run(int argc, char** argv) {
  CLI::App app("Every CUDA kernel of the outer step beside a copy of as many bytes.");
  app.name("shoal-kernels");
  KernelsOptions options;
  app.add_option("--values", options.values,
                 "Values of a vector; fewer where the device has no room")
      ->check(CLI::Range(std::int64_t{1} << 20, std::int64_t{1} << 34));
  app.add_option("--repeats", options.repeats)->check(CLI::Range(1, 1000));
  app.add_flag("--json", options.json, "One JSON object");
  CLI11_PARSE(app, argc, argv);
  const char* why_not = obstacle();
  if (why_not == nullptr) return measure(options);
  say(why_not, options.json);
  return 0;
}

}  // namespace
}  // namespace shoal::bench

int main(int argc, char** argv) { return shoal::bench::run(argc, argv); }
