// One chunk at a time. Selection is a radix select: a histogram over the upper bits of the
// magnitudes finds the bucket of the 64th largest, only that bucket is looked at more closely.
#include "outer_opt/core/codec/sparse2.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "base/check.h"
#include "outer_opt/core/codec/codec_kernels.h"

namespace shoal::outer_opt {
namespace {

using sparse2::Codebook;
using sparse2::Entry;
using sparse2::kCodebookBytes;
using sparse2::kLowBits;
using sparse2::kUnaryBytes;
using sparse2::Layout;
using Entries = std::array<Entry, kSparseKept>;

// Least significant bit first.
void put_bits(std::byte* out, std::size_t at, unsigned count, unsigned value) {
  for (unsigned i = 0; i < count; ++i) {
    const std::size_t bit = at + i;
    out[bit / 8] |= static_cast<std::byte>(((value >> i) & 1u) << bit % 8);
  }
}

unsigned get_bits(const std::byte* in, std::size_t at, unsigned count) {
  unsigned value = 0;
  for (unsigned i = 0; i < count; ++i) {
    const std::size_t bit = at + i;
    value |= (std::to_integer<unsigned>(in[bit / 8]) >> bit % 8 & 1u) << i;
  }
  return value;
}

std::uint32_t magnitude_bits(float value) { return bits_of(value) & kMagnitude; }

// The value with the larger magnitude has the larger key; of two equal ones, the earlier.
std::uint64_t key_of(float value, std::size_t index) {
  return std::uint64_t{magnitude_bits(value)} << 12 | (kSparseChunk - 1 - index);
}

// The key of the `kept`-th largest value.
std::uint64_t threshold(std::span<const float> in, std::size_t kept) {
  constexpr unsigned kShift = 20;  // exponent and three bits of the mantissa
  std::array<std::uint16_t, (kMagnitude >> kShift) + 1> histogram{};
  for (const float value : in) ++histogram[magnitude_bits(value) >> kShift];
  std::size_t bucket = histogram.size(), above = 0;
  while (above + histogram[bucket - 1] < kept) above += histogram[--bucket];
  --bucket;
  std::array<std::uint64_t, kSparseChunk> keys;
  std::size_t count = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (magnitude_bits(in[i]) >> kShift == bucket) keys[count++] = key_of(in[i], i);
  }
  const auto nth = keys.begin() + static_cast<std::ptrdiff_t>(kept - above - 1);
  std::nth_element(keys.begin(), nth, keys.begin() + static_cast<std::ptrdiff_t>(count),
                   std::greater<>());
  return *nth;
}

// The largest values with their indices, ascending.
Entries select(std::span<const float> in, std::size_t kept) {
  const std::uint64_t least = threshold(in, kept);
  const auto magnitude = static_cast<std::uint32_t>(least >> 12);
  Entries entries;
  std::size_t count = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (magnitude_bits(in[i]) < magnitude || key_of(in[i], i) < least) continue;
    entries[count++] = {static_cast<std::uint32_t>(i), in[i]};
  }
  return entries;
}

void store_magnitude(double magnitude, std::byte* out) {
  const std::uint16_t stored = sparse2::stored_magnitude(magnitude);
  std::memcpy(out, &stored, sizeof stored);
}

void encode_chunk(std::span<const float> in, std::byte* out) {
  const Layout layout(in.size());
  std::memset(out, 0, layout.size);
  const Entries all = select(in, layout.kept);
  const auto entries = std::span(all).first(layout.kept);
  const Codebook book = sparse2::codebook_of(entries.data(), entries.size());
  store_magnitude(book.small, out);
  store_magnitude(book.large, out + 2);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::uint32_t index = entries[i].index;
    put_bits(out + kCodebookBytes, kLowBits * i, kLowBits, index);
    put_bits(out + layout.unary, (index >> kLowBits) + i, 1, 1);
    put_bits(out + layout.codes, 2 * i, 2, sparse2::code_of(entries[i], book));
  }
}

Status damaged(const std::string& what) {
  return Error{Code::kDataLoss, "a sparse run is damaged: " + what};
}

Status load_codebook(const std::byte* in, float (&magnitudes)[2]) {
  if (!reference_kernels(CodecKind::kBf16).decode(in, 2, magnitudes)) {
    return damaged("a magnitude is not finite");
  }
  if (std::signbit(magnitudes[0]) || magnitudes[1] < magnitudes[0]) {
    return damaged("the magnitudes are negative or not in order");
  }
  return {};
}

// The positions of the bits that are set in the unary part, which tell the upper bits of the
// indices.
Status load_uppers(const std::byte* in, std::size_t kept, std::array<std::uint32_t, 64>& uppers) {
  std::size_t count = 0;
  for (std::size_t bit = 0; bit < 8 * kUnaryBytes; ++bit) {
    if (get_bits(in, bit, 1) == 0) continue;
    if (count == kept) return damaged("it has too many indices");
    uppers[count] = static_cast<std::uint32_t>(bit - count);
    ++count;
  }
  return count == kept ? Status() : damaged("indices are missing");
}

Status decode_chunk(const std::byte* in, std::size_t n, Entries& entries) {
  const Layout layout(n);
  float magnitudes[2];
  if (Status s = load_codebook(in, magnitudes); !s.ok()) return s;
  std::array<std::uint32_t, kSparseKept> uppers;
  if (Status s = load_uppers(in + layout.unary, layout.kept, uppers); !s.ok()) return s;
  for (std::size_t i = 0; i < layout.kept; ++i) {
    const unsigned low = get_bits(in + kCodebookBytes, kLowBits * i, kLowBits);
    const std::uint32_t index = uppers[i] << kLowBits | low;
    if (index >= n || (i > 0 && index <= entries[i - 1].index)) {
      return damaged("index " + std::to_string(index) + " is not in order");
    }
    const unsigned code = get_bits(in + layout.codes, 2 * i, 2);
    const float magnitude = magnitudes[code & 1u];
    entries[i] = {index, code < 2 ? magnitude : -magnitude};
  }
  return {};
}

// Calls use(first value, count, first byte) for every chunk in order, until it fails.
template <typename Use>
Status for_each_chunk(std::size_t values, Use use) {
  for (std::size_t first = 0, at = 0; first < values; first += kSparseChunk) {
    const std::size_t n = std::min(kSparseChunk, values - first);
    if (Status s = use(first, n, at); !s.ok()) return s;
    at += Layout(n).size;
  }
  return {};
}

Status check_size(std::span<const std::byte> encoded, std::size_t values) {
  if (encoded.size() == sparse2_size(values)) return {};
  return damaged(std::to_string(encoded.size()) + " bytes instead of " +
                 std::to_string(sparse2_size(values)));
}

// The mean of one chunk.
class ChunkMean {
 public:
  Status add(const std::byte* in, std::size_t n, const SparseTerm& term) {
    Entries entries;
    if (Status s = decode_chunk(in, n, entries); !s.ok()) return s;
    for (const auto& [index, value] : std::span(entries).first(std::min(n, kSparseKept))) {
      if (value == 0) continue;
      const float scaled = term.factor * value;
      sum_[index] = sum_[index] + scaled;
      weight_[index] = weight_[index] + term.weight;
    }
    return {};
  }

  void write(std::span<float> average) const {
    for (std::size_t i = 0; i < average.size(); ++i) {
      average[i] = weight_[i] > 0 ? sum_[i] / weight_[i] : 0.0f;
    }
  }

 private:
  std::array<float, kSparseChunk> sum_{}, weight_{};
};

}  // namespace

std::size_t sparse2_size(std::size_t values) {
  const std::size_t rest = values % kSparseChunk;
  const std::size_t whole = values / kSparseChunk * Layout(kSparseChunk).size;
  return whole + (rest > 0 ? Layout(rest).size : 0);
}

void sparse2_encode(std::span<const float> in, std::span<std::byte> out) {
  SHOAL_CHECK(out.size() == sparse2_size(in.size()));
  const Status always = for_each_chunk(in.size(), [&](auto first, auto n, auto at) {
    encode_chunk(in.subspan(first, n), &out[at]);
    return Status();
  });
  SHOAL_CHECK(always.ok());
}

Status sparse2_decode(std::span<const std::byte> in, std::span<float> out) {
  if (Status s = check_size(in, out.size()); !s.ok()) return s;
  std::fill(out.begin(), out.end(), 0.0f);
  return for_each_chunk(out.size(), [&](auto first, auto n, auto at) {
    Entries entries;
    if (Status s = decode_chunk(&in[at], n, entries); !s.ok()) return s;
    for (const auto& [index, value] : std::span(entries).first(std::min(n, kSparseKept))) {
      out[first + index] = value;
    }
    return Status();
  });
}

Status sparse2_check(std::span<const std::byte> in, std::size_t values) {
  double unused = 0;
  return sparse2_squares(in, values, unused);
}

Status sparse2_squares(std::span<const std::byte> in, std::size_t values, double& squares) {
  if (Status s = check_size(in, values); !s.ok()) return s;
  squares = 0;
  return for_each_chunk(values, [&](auto, auto n, auto at) {
    Entries entries;
    if (Status s = decode_chunk(&in[at], n, entries); !s.ok()) return s;
    for (const auto& [index, value] : std::span(entries).first(std::min(n, kSparseKept))) {
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    return Status();
  });
}

Status sparse2_mean(std::span<const SparseTerm> terms, std::span<float> average) {
  for (const SparseTerm& term : terms) {
    if (Status s = check_size(term.encoded, average.size()); !s.ok()) return s;
  }
  return for_each_chunk(average.size(), [&](auto first, auto n, auto at) {
    ChunkMean mean;
    for (const SparseTerm& term : terms) {
      if (Status s = mean.add(&term.encoded[at], n, term); !s.ok()) return s;
    }
    mean.write(average.subspan(first, n));
    return Status();
  });
}

// ---- error feedback

void ErrorFeedback::add(std::span<const float> pseudo_gradient, std::size_t first,
                        std::span<float> sum) const {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const float kept = decay_ * residual_[first + i];
    sum[i] = kept + pseudo_gradient[first + i];
  }
}

std::vector<std::byte> ErrorFeedback::encode(std::span<const float> pseudo_gradient) const {
  SHOAL_CHECK(pseudo_gradient.size() == residual_.size());
  std::vector<std::byte> out(sparse2_size(residual_.size()));
  const Status always = for_each_chunk(residual_.size(), [&](auto first, auto n, auto at) {
    std::array<float, kSparseChunk> sum;
    add(pseudo_gradient, first, std::span(sum).first(n));
    encode_chunk(std::span(sum).first(n), &out[at]);
    return Status();
  });
  SHOAL_CHECK(always.ok());
  return out;
}

Status ErrorFeedback::commit(std::span<const float> pseudo_gradient,
                             std::span<const std::byte> encoded) {
  SHOAL_CHECK(pseudo_gradient.size() == residual_.size());
  if (Status s = sparse2_check(encoded, residual_.size()); !s.ok()) return s;
  return for_each_chunk(residual_.size(), [&](auto first, auto n, auto at) {
    const auto chunk = std::span(residual_).subspan(first, n);
    add(pseudo_gradient, first, chunk);
    Entries entries;
    const Status again = decode_chunk(&encoded[at], n, entries);
    for (const auto& [index, value] : std::span(entries).first(std::min(n, kSparseKept))) {
      chunk[index] = chunk[index] - value;
    }
    return again;
  });
}

}  // namespace shoal::outer_opt
