// One thread passes over a vector that fits no cache, in runs of one frame as the reduce does. The
// rate is that of the fp32 side, so a codec can be set beside memcpy.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>

#include <nlohmann/json.hpp>

#include "base/prng.h"
#include "bench/bench.h"
#include "outer_opt/core/codec.h"

namespace shoal::bench {
namespace {

constexpr std::size_t kRun = 1 << 18;

struct Rate {
  std::string name;
  double gb_per_s;
};

struct Buffers {
  std::vector<float> in, out;
  std::vector<std::byte> encoded;
};

using Pass = std::function<void(std::size_t first, std::size_t count)>;

Rate measure(const CodecOptions& options, std::size_t values, std::string name, const Pass& pass) {
  std::vector<double> seconds;
  for (int i = 0; i <= options.repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t first = 0; first < values; first += kRun) {
      pass(first, std::min(kRun, values - first));
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (i > 0) seconds.push_back(spent.count());  // the first pass touches the pages
  }
  return {std::move(name), static_cast<double>(values) * sizeof(float) / median(seconds) * 1e-9};
}

std::vector<Rate> measure_all(const CodecOptions& options, Buffers& b) {
  using outer_opt::codec;
  const auto& int8 = codec(CodecKind::kInt8);
  const auto& fp32 = codec(CodecKind::kFp32);
  const std::size_t values = b.in.size();
  const auto in = [&](std::size_t first, std::size_t n) {
    return std::span<const float>(b.in).subspan(first, n);
  };
  const auto out = [&](std::size_t first, std::size_t n) {
    return std::span(b.out).subspan(first, n);
  };
  const auto bytes = [&](std::size_t first, std::size_t n) {
    return std::span(b.encoded).subspan(int8.encoded_size(first), int8.encoded_size(n));
  };
  bool good = true;
  std::vector<Rate> rates;
  rates.push_back(measure(options, values, "memcpy", [&](std::size_t f, std::size_t n) {
    std::memcpy(out(f, n).data(), in(f, n).data(), n * sizeof(float));
  }));
  rates.push_back(measure(options, values, "int8 encode", [&](std::size_t f, std::size_t n) {
    int8.encode(in(f, n), bytes(f, n));
  }));
  rates.push_back(measure(options, values, "int8 decode", [&](std::size_t f, std::size_t n) {
    good &= int8.decode(bytes(f, n), out(f, n)).ok();
  }));
  rates.push_back(measure(options, values, "int8 accumulate", [&](std::size_t f, std::size_t n) {
    good &= int8.accumulate(bytes(f, n), 0.5f, out(f, n)).ok();
  }));
  rates.push_back(measure(options, values, "fp32 accumulate", [&](std::size_t f, std::size_t n) {
    good &= fp32.accumulate(std::as_bytes(in(f, n)), 0.5f, out(f, n)).ok();
  }));
  if (!good) rates.clear();
  return rates;
}

}  // namespace

int run_codec(const CodecOptions& options) {
  Buffers buffers;
  Prng prng(1);
  buffers.in.resize(static_cast<std::size_t>(options.values));
  for (float& value : buffers.in) value = static_cast<float>(prng.unit() - 0.5);
  buffers.out.resize(buffers.in.size());
  buffers.encoded.resize(outer_opt::codec(CodecKind::kInt8).encoded_size(buffers.in.size()));
  const auto rates = measure_all(options, buffers);
  if (rates.empty()) return std::fputs("shoal-bench: a codec refused its own output\n", stderr), 1;
  if (!options.json) {
    std::printf("%-16s %10s %10s\n", "codec", "GB/s fp32", "of memcpy");
    for (const Rate& r : rates) {
      std::printf("%-16s %10.2f %9.0f %%\n", r.name.c_str(), r.gb_per_s,
                  100 * r.gb_per_s / rates[0].gb_per_s);
    }
    return 0;
  }
  nlohmann::ordered_json json = {{"name", "codec"}, {"values", options.values}, {"threads", 1}};
  for (const Rate& r : rates) {
    json["results"].push_back({{"name", r.name},
                               {"gb_per_s", r.gb_per_s},
                               {"of_memcpy", r.gb_per_s / rates[0].gb_per_s}});
  }
  std::printf("%s\n", json.dump(2).c_str());
  return 0;
}

}  // namespace shoal::bench
