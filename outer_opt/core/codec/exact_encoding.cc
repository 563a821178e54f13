// See exact_encoding.h.
#include "outer_opt/core/codec/exact_encoding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "outer_opt/core/codec/codec.h"

namespace shoal::outer_opt {
namespace {

using Bytes = std::vector<std::byte>;

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

bool decodes_to(const Codec& codec, std::span<const std::byte> bytes, std::span<const float> values,
                std::span<float> scratch) {
  const std::span<float> decoded = scratch.first(values.size());
  return codec.decode(bytes, decoded).ok() && same_bits(decoded, values);
}

// One block whose scale may be a neighbor of the one that encode() finds.
bool encode_block(const Codec& codec, std::span<const float> values, std::span<std::byte> out,
                  std::span<float> scratch) {
  codec.encode(values, out);
  if (decodes_to(codec, out, values, scratch)) return true;
  std::uint32_t scale;
  std::memcpy(&scale, out.data(), sizeof scale);
  for (const std::uint32_t near : {scale - 1, scale + 1}) {
    std::memcpy(out.data(), &near, sizeof near);
    if (decodes_to(codec, out, values, scratch)) return true;
  }
  return false;
}

bool encode_blocks(const Codec& codec, std::size_t block_values, std::span<const float> values,
                   std::span<std::byte> out) {
  std::vector<float> scratch(block_values);
  for (std::size_t first = 0, at = 0; first < values.size(); first += block_values) {
    const auto block = values.subspan(first, std::min(block_values, values.size() - first));
    const std::size_t size = codec.encoded_size(block.size());
    if (!encode_block(codec, block, out.subspan(at, size), scratch)) return false;
    at += size;
  }
  return true;
}

// A scale in fp32 may have lost its last bit; one in bf16 and a float without a scale have not.
bool has_rounded_scale(const CodecTraits& traits) { return traits.scale_bytes == sizeof(float); }

std::optional<Bytes> as_codec(CodecKind kind, std::span<const float> values) {
  if (kind == CodecKind::kSparse2 || kind == CodecKind::kFp32) return std::nullopt;
  Bytes bytes(codec(kind).encoded_size(values.size()));
  if (has_rounded_scale(traits_of(kind))) {
    if (!encode_blocks(codec(kind), traits_of(kind).block, values, bytes)) return std::nullopt;
    return bytes;
  }
  codec(kind).encode(values, bytes);
  std::vector<float> scratch(values.size());
  if (!decodes_to(codec(kind), bytes, values, scratch)) return std::nullopt;
  return bytes;
}

std::size_t bitmap_size(std::size_t values) { return (values + 7) / 8; }

bool is_zero(float value) { return value == 0 && !std::signbit(value); }

std::optional<Bytes> as_bitmap(std::span<const float> values) {
  const auto there =
      static_cast<std::size_t>(std::ranges::count_if(values, [](float v) { return !is_zero(v); }));
  const std::size_t size = bitmap_size(values.size()) + there * sizeof(float);
  if (size >= values.size() * sizeof(float)) return std::nullopt;
  Bytes bytes(size);
  std::byte* next = bytes.data() + bitmap_size(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_zero(values[i])) continue;
    bytes[i / 8] |= std::byte{1} << (i % 8);
    std::memcpy(next, &values[i], sizeof(float));
    next += sizeof(float);
  }
  return bytes;
}

Error no_encoding() {
  return {Code::kDataLoss, "the bytes are no encoding of so many values", "", ""};
}

Status from_bitmap(std::span<const std::byte> bytes, std::span<float> out) {
  if (bytes.size() < bitmap_size(out.size())) return no_encoding();
  std::span<const std::byte> rest = bytes.subspan(bitmap_size(out.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = 0;
    if ((bytes[i / 8] & (std::byte{1} << (i % 8))) == std::byte{}) continue;
    if (rest.size() < sizeof(float)) return no_encoding();
    std::memcpy(&out[i], rest.data(), sizeof(float));
    rest = rest.subspan(sizeof(float));
  }
  return rest.empty() ? Status() : no_encoding();
}

}  // namespace

ExactEncoding encode_exactly(CodecKind codec, std::span<const float> values) {
  if (auto bytes = as_codec(codec, values)) return {ExactForm::kCodec, std::move(*bytes)};
  if (auto bytes = as_bitmap(values)) return {ExactForm::kBitmap, std::move(*bytes)};
  const auto plain = std::as_bytes(values);
  return {ExactForm::kPlain, Bytes(plain.begin(), plain.end())};
}

Status decode_exactly(CodecKind kind, ExactForm form, std::span<const std::byte> bytes,
                      std::span<float> out) {
  switch (form) {
    case ExactForm::kPlain:
      return codec(CodecKind::kFp32).decode(bytes, out);
    case ExactForm::kCodec:
      if (kind == CodecKind::kSparse2) return no_encoding();
      return codec(kind).decode(bytes, out);
    case ExactForm::kBitmap:
      return from_bitmap(bytes, out);
  }
  return no_encoding();
}

}  // namespace shoal::outer_opt
