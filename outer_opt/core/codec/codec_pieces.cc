#include "outer_opt/core/codec/codec_pieces.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "outer_opt/core/codec/checksum.h"

namespace shoal::outer_opt {
namespace {

// Bytes in pieces, taken from the front.
class Reader {
 public:
  explicit Reader(Pieces pieces) : pieces_(pieces) {}

  std::span<const std::byte> in_front() {
    while (offset_ == pieces_[piece_].size()) ++piece_, offset_ = 0;
    return pieces_[piece_].subspan(offset_);
  }
  void skip(std::size_t bytes) { offset_ += bytes; }
  void copy(std::span<std::byte> out) {
    while (!out.empty()) {
      const auto front = in_front();
      const std::size_t n = std::min(front.size(), out.size());
      std::memcpy(out.data(), front.data(), n);
      skip(n);
      out = out.subspan(n);
    }
  }

 private:
  const Pieces pieces_;
  std::size_t piece_ = 0, offset_ = 0;
};

// The payload has the bytes of `count` values.
template <typename Use>
void cut_into_runs(const Codec& codec, Pieces payload, std::size_t count, Use use) {
  const std::size_t unit = codec.encoded_size(kCodecRun);
  std::array<std::byte, kCodecRun * sizeof(float)> scratch;
  Reader reader(payload);
  for (std::size_t first = 0; first < count;) {
    const auto front = reader.in_front();
    std::size_t n = std::min(kRunValues, count - first);
    if (front.size() < codec.encoded_size(n)) n = front.size() / unit * kCodecRun;
    if (n > 0) {
      use(ValueRun{front.first(codec.encoded_size(n)), first, n});
      reader.skip(codec.encoded_size(n));
    } else {
      n = std::min<std::size_t>(kCodecRun, count - first);
      const auto block = std::span(scratch).first(codec.encoded_size(n));
      reader.copy(block);
      use(ValueRun{block, first, n});
    }
    first += n;
  }
}

}  // namespace

Status read_payload(const Codec& codec, const FrameHeader& header, Pieces payload,
                    const ReadRun& read) {
  if (Status s = check_size(header, payload); !s.ok()) return s;
  RunningChecksum checksum;
  Status first_error;
  cut_into_runs(codec, payload, header.count, [&](const ValueRun& run) {
    if (header.has_checksum()) checksum.add(run.bytes);
    if (first_error.ok()) first_error = read(run);
  });
  if (Status s = check_checksum(header, checksum.value()); !s.ok()) return s;
  return first_error;
}

Status for_each_run(std::size_t count, const ReadRun& use) {
  for (std::size_t first = 0; first < count; first += kRunValues) {
    if (Status s = use(ValueRun{{}, first, std::min(kRunValues, count - first)}); !s.ok()) return s;
  }
  return {};
}

Status decode_payload(const Codec& codec, const FrameHeader& header, Pieces payload,
                      std::span<float> out) {
  return read_payload(codec, header, payload, [&](const ValueRun& run) {
    return codec.decode(run.bytes, out.subspan(run.first, run.count));
  });
}

}  // namespace shoal::outer_opt
