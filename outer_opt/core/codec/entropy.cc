#include "outer_opt/core/codec/entropy.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include <zstd.h>

#include "base/check.h"
#include "outer_opt/core/codec/codec_traits.h"

namespace shoal::outer_opt {
namespace {

constexpr int kLevel = 1;
// The longest that the fastest search of zstd knows: shorter repetitions of exponents are chance,
// and to name one costs more than its Huffman codes.
constexpr int kMatchMin = 7;
constexpr int kHashLog = 10;

template <typename Word>
Word load(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

template <typename Word>
void store(std::byte* to, Word word) {
  std::memcpy(to, &word, sizeof word);
}

void split4(const std::byte* in, std::size_t n, std::byte* top, std::byte* rest) {
  std::byte* third = rest + 2 * n;
  for (std::size_t i = 0; i < n; ++i) {
    const auto word = std::rotl(load<std::uint32_t>(in + 4 * i), 1);
    top[i] = static_cast<std::byte>(word >> 24);
    third[i] = static_cast<std::byte>(word >> 16);
    store(rest + 2 * i, static_cast<std::uint16_t>(word));
  }
}

void join4(const std::byte* top, const std::byte* rest, std::size_t n, std::byte* out) {
  const std::byte* third = rest + 2 * n;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t word = std::to_integer<std::uint32_t>(top[i]) << 24 |
                               std::to_integer<std::uint32_t>(third[i]) << 16 |
                               load<std::uint16_t>(rest + 2 * i);
    store(out + 4 * i, std::rotr(word, 1));
  }
}

void split2(const std::byte* in, std::size_t n, std::byte* top, std::byte* rest) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto word = std::rotl(load<std::uint16_t>(in + 2 * i), 1);
    top[i] = static_cast<std::byte>(word >> 8);
    rest[i] = static_cast<std::byte>(word);
  }
}

void join2(const std::byte* top, const std::byte* rest, std::size_t n, std::byte* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto word = static_cast<std::uint16_t>(std::to_integer<unsigned>(top[i]) << 8 |
                                                 std::to_integer<unsigned>(rest[i]));
    store(out + 2 * i, std::rotr(word, 1));
  }
}

Status damaged(const std::string& what) {
  return Error{Code::kDataLoss, "bad frame: entropy coding: " + what};
}

// One span, in `whole` if the pieces are several.
std::span<const std::byte> joined(Pieces pieces, std::vector<std::byte>& whole) {
  if (pieces.size() == 1) return pieces[0];
  whole.clear();
  for (const auto& piece : pieces) whole.insert(whole.end(), piece.begin(), piece.end());
  return whole;
}

}  // namespace

struct EntropyCoder::Contexts {
  ZSTD_CCtx* coding = ZSTD_createCCtx();
  ZSTD_DCtx* decoding = ZSTD_createDCtx();
  ~Contexts() {
    ZSTD_freeCCtx(coding);
    ZSTD_freeDCtx(decoding);
  }
};

EntropyCoder::EntropyCoder() : contexts_(std::make_unique<Contexts>()) {
  SHOAL_CHECK(contexts_->coding != nullptr && contexts_->decoding != nullptr, "out of memory");
  const auto set = [&](ZSTD_cParameter parameter, int value) {
    const std::size_t result = ZSTD_CCtx_setParameter(contexts_->coding, parameter, value);
    SHOAL_CHECK(ZSTD_isError(result) == 0, "zstd knows its parameters");
  };
  set(ZSTD_c_compressionLevel, kLevel);
  set(ZSTD_c_strategy, ZSTD_fast);
  set(ZSTD_c_minMatch, kMatchMin);
  set(ZSTD_c_hashLog, kHashLog);
  set(ZSTD_c_targetLength, 0);  // otherwise it leaves literals as they are
  set(ZSTD_c_contentSizeFlag, 0);
}

EntropyCoder::~EntropyCoder() = default;

std::size_t EntropyCoder::encode(CodecKind codec, std::span<const std::byte> payload,
                                 std::span<std::byte> out) {
  const std::size_t width = traits_of(codec).planes;
  if (width == 0 || payload.empty()) return 0;
  const std::size_t values = payload.size() / width, rest_size = payload.size() - values;
  SHOAL_CHECK(values * width == payload.size() && out.size() == payload.size(),
              "a payload of whole values and room for it");
  const auto gain = static_cast<std::size_t>(kEntropyGain * static_cast<double>(payload.size()));
  if (values <= gain) return 0;
  std::span<const std::byte> plane = payload;
  std::byte* const rest = out.data() + values - gain;  // moved down when the plane is coded
  if (width > 1) {
    plane_.resize(values);
    plane = plane_;
    (width == 4 ? split4 : split2)(payload.data(), values, plane_.data(), rest);
  }
  const std::size_t coded =
      ZSTD_compress2(contexts_->coding, out.data(), values - gain, plane.data(), plane.size());
  if (ZSTD_isError(coded) != 0) return 0;  // it does not fit
  std::memmove(out.data() + coded, rest, rest_size);
  return coded + rest_size;
}

Status EntropyCoder::decode(CodecKind codec, Pieces coded, std::span<std::byte> payload) {
  const std::size_t width = traits_of(codec).planes;
  if (width == 0) return damaged(std::string("not of ") + to_string(codec));
  const std::size_t values = payload.size() / width, rest_size = payload.size() - values;
  SHOAL_CHECK(values * width == payload.size(), "a payload of whole values");
  const auto all = joined(coded, whole_);
  if (all.size() <= rest_size) return damaged("too short");
  const auto front = all.first(all.size() - rest_size);
  if (width > 1) plane_.resize(values);
  std::byte* const plane = width > 1 ? plane_.data() : payload.data();
  const std::size_t size =
      ZSTD_decompressDCtx(contexts_->decoding, plane, values, front.data(), front.size());
  if (ZSTD_isError(size) != 0) return damaged(ZSTD_getErrorName(size));
  if (size != values) return damaged("of another size");
  if (width > 1)
    (width == 4 ? join4 : join2)(plane, all.data() + front.size(), values, payload.data());
  return {};
}

}  // namespace shoal::outer_opt
