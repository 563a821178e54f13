// One thread passes over a vector that fits no cache, in runs of one frame as the reduce does. The
// rate is that of the fp32 side per second of processor time, so a codec can be set beside memcpy
// and other load on the machine counts little. The error is that of one encoding of values with
// heavy tails. Entropy coding is measured on what the codec has encoded.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <span>

#include <nlohmann/json.hpp>
#include <time.h>

#include "base/check.h"
#include "base/prng.h"
#include "bench/bench.h"
#include "outer_opt/core/codec/codec.h"
#include "outer_opt/core/codec/entropy.h"
#include "outer_opt/core/codec/sparse2.h"

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

double thread_s() {
  timespec time{};
  SHOAL_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Rate measure(const CodecOptions& options, std::size_t values, std::string name, const Pass& pass) {
  std::vector<double> seconds;
  for (int i = 0; i <= options.repeats; ++i) {
    const double start = thread_s();
    for (std::size_t first = 0; first < values; first += kRun) {
      pass(first, std::min(kRun, values - first));
    }
    const double spent = thread_s() - start;
    if (i > 0) seconds.push_back(spent);  // the first pass touches the pages
  }
  return {std::move(name), static_cast<double>(values) * sizeof(float) / median(seconds) * 1e-9};
}

// A dense codec, or sparse2 with the mean of one member in place of the sum.
struct MeasuredCodec {
  std::string name;
  std::function<std::size_t(std::size_t)> size;
  std::function<void(std::span<const float>, std::span<std::byte>)> encode;
  std::function<Status(std::span<const std::byte>, std::span<float>)> decode, accumulate;
  std::optional<CodecKind> entropy = {};  // if its encodings are entropy coded on slow lines
};

std::vector<MeasuredCodec> measured_codecs() {
  std::vector<MeasuredCodec> all;
  for (const CodecKind kind : outer_opt::kDenseCodecs) {
    const outer_opt::Codec* codec = &outer_opt::codec(kind);
    all.push_back({to_string(kind), [codec](std::size_t n) { return codec->encoded_size(n); },
                   [codec](auto in, auto out) { codec->encode(in, out); },
                   [codec](auto in, auto out) { return codec->decode(in, out); },
                   [codec](auto in, auto sum) { return codec->accumulate(in, 0.5f, sum); }, kind});
  }
  all.push_back({"sparse2", outer_opt::sparse2_size, outer_opt::sparse2_encode,
                 outer_opt::sparse2_decode, [](auto in, auto mean) {
                   const outer_opt::SparseTerm term{in, 1, 0.5f};
                   return outer_opt::sparse2_mean({&term, 1}, mean);
                 }});
  return all;
}

// What a codec costs and what it loses.
struct Loss {
  std::string name;
  double bits_per_value, bits_coded;  // the latter on slow lines
  double relative_error;              // Euclidean norm of the error by that of the values
};

// Heavy tails, as pseudo-gradients have them: each run of 1,000 values has a scale of its own, and
// one value in a hundred is ten times as large.
std::vector<float> heavy_tailed(std::size_t n) {
  Prng prng(1);
  std::vector<float> values(n);
  float scale = 1;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % 1000 == 0) scale = 1e-3f * static_cast<float>(prng.exponential(1));
    values[i] = scale * static_cast<float>(prng.normal()) * (prng.below(100) == 0 ? 10.0f : 1.0f);
  }
  return values;
}

Loss loss_of(const MeasuredCodec& codec, std::span<const float> in) {
  std::vector<std::byte> bytes(codec.size(in.size()));
  std::vector<float> out(in.size());
  codec.encode(in, bytes);
  SHOAL_CHECK(codec.decode(bytes, out).ok());
  std::size_t coded = bytes.size();
  if (codec.entropy) {
    std::vector<std::byte> smaller(bytes.size());
    outer_opt::EntropyCoder coder;
    coded = coder.encode(*codec.entropy, bytes, smaller);
    if (coded == 0) coded = bytes.size();
  }
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const double x = in[i], difference = static_cast<double>(out[i]) - x;
    error += difference * difference;
    norm += x * x;
  }
  const double bits = 8.0 / static_cast<double>(in.size());
  return {codec.name, bits * static_cast<double>(bytes.size()), bits * static_cast<double>(coded),
          std::sqrt(error / norm)};
}

Rate measure_memcpy(const CodecOptions& options, Buffers& b) {
  return measure(options, b.in.size(), "memcpy", [&](std::size_t first, std::size_t n) {
    std::memcpy(&b.out[first], &b.in[first], n * sizeof(float));
  });
}

void measure_codec(const CodecOptions& options, const MeasuredCodec& codec, Buffers& b,
                   std::vector<Rate>& rates) {
  const auto bytes = [&](std::size_t first, std::size_t n) {
    return std::span(b.encoded).subspan(codec.size(first), codec.size(n));
  };
  const std::string& name = codec.name;
  bool good = true;
  rates.push_back(measure(options, b.in.size(), name + " encode", [&](auto first, auto n) {
    codec.encode(std::span(b.in).subspan(first, n), bytes(first, n));
  }));
  rates.push_back(measure(options, b.in.size(), name + " decode", [&](auto first, auto n) {
    good &= codec.decode(bytes(first, n), std::span(b.out).subspan(first, n)).ok();
  }));
  rates.push_back(measure(options, b.in.size(), name + " accumulate", [&](auto first, auto n) {
    good &= codec.accumulate(bytes(first, n), std::span(b.out).subspan(first, n)).ok();
  }));
  SHOAL_CHECK(good, "a codec refused its own output");
}

// Codes the payload that measure_codec() left in b.encoded.
void measure_entropy(const CodecOptions& options, const MeasuredCodec& codec, Buffers& b,
                     std::vector<Rate>& rates) {
  outer_opt::EntropyCoder coder;
  std::vector<std::vector<std::byte>> coded(b.in.size() / kRun + 1);
  const auto bytes = [&](std::size_t first, std::size_t n) {
    return std::span(b.encoded).subspan(codec.size(first), codec.size(n));
  };
  const CodecKind kind = *codec.entropy;
  rates.push_back(measure(options, b.in.size(), codec.name + " entropy code", [&](auto at, auto n) {
    std::vector<std::byte>& to = coded[at / kRun];
    to.resize(codec.size(n));
    to.resize(coder.encode(kind, bytes(at, n), to));
  }));
  bool good = true;
  rates.push_back(measure(options, b.in.size(), codec.name + " expand", [&](auto at, auto n) {
    const std::span<const std::byte> pieces[] = {coded[at / kRun]};
    good &= pieces[0].empty() || coder.decode(kind, pieces, bytes(at, n)).ok();
  }));
  SHOAL_CHECK(good, "the coder refused its own output");
}

void print_table(const std::vector<Rate>& rates, const std::vector<Loss>& losses) {
  std::printf("%-20s %10s %10s\n", "operation", "GB/s fp32", "of memcpy");
  for (const Rate& r : rates) {
    std::printf("%-20s %10.2f %9.0f %%\n", r.name.c_str(), r.gb_per_s,
                100 * r.gb_per_s / rates[0].gb_per_s);
  }
  std::printf("\n%-16s %10s %10s %12s\n", "codec", "bits/value", "coded", "error");
  for (const Loss& l : losses) {
    std::printf("%-16s %10.3f %10.3f %11.4f %%\n", l.name.c_str(), l.bits_per_value, l.bits_coded,
                100 * l.relative_error);
  }
}

void print_json(const CodecOptions& options, const std::vector<Rate>& rates,
                const std::vector<Loss>& losses) {
  nlohmann::ordered_json json = {{"name", "codec"}, {"values", options.values}, {"threads", 1}};
  for (const Rate& r : rates) {
    json["results"].push_back({{"name", r.name},
                               {"gb_per_s", r.gb_per_s},
                               {"of_memcpy", r.gb_per_s / rates[0].gb_per_s}});
  }
  for (const Loss& l : losses) {
    json["codecs"].push_back({{"name", l.name},
                              {"bits_per_value", l.bits_per_value},
                              {"bits_entropy_coded", l.bits_coded},
                              {"relative_error", l.relative_error}});
  }
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

int run_codec(const CodecOptions& options) {
  Buffers buffers;
  buffers.in = heavy_tailed(static_cast<std::size_t>(options.values));
  buffers.out.resize(buffers.in.size());
  buffers.encoded.resize(buffers.in.size() * sizeof(float));
  std::vector<Rate> rates{measure_memcpy(options, buffers)};
  std::vector<Loss> losses;
  const std::size_t sample = std::min(buffers.in.size(), std::size_t{1} << 20);
  for (const MeasuredCodec& codec : measured_codecs()) {
    std::fill(buffers.out.begin(), buffers.out.end(), 0.0f);
    measure_codec(options, codec, buffers, rates);
    if (codec.entropy) measure_entropy(options, codec, buffers, rates);
    losses.push_back(loss_of(codec, std::span(buffers.in).first(sample)));
  }
  if (options.json) {
    print_json(options, rates, losses);
  } else {
    print_table(rates, losses);
  }
  return 0;
}

}  // namespace shoal::bench
