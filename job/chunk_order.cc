#include "job/chunk_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/prng.h"

namespace shoal {
namespace {

constexpr std::size_t kEpochsKept = 3;
constexpr std::int64_t kUnitsWanted = 8;        // fewer, and one waits for the others' at the end
constexpr std::int64_t kValidationChunks = 16;  // that are read for validation, or what it needs
// Salts of what is drawn beside the order of the chunks.
constexpr std::uint64_t kPhaseSalt = 0x7068617365ULL, kGroupSalt = 0x67726f7570ULL;

}  // namespace

ChunkOrder::ChunkOrder(std::vector<std::int64_t> tokens, std::int64_t context, std::uint64_t seed,
                       double val_fraction, std::int64_t batch)
    : tokens_(std::move(tokens)), context_(context), seed_(seed) {
  SHOAL_CHECK(context_ > 0);
  const auto chunks = static_cast<std::int64_t>(tokens_.size());
  const auto share =
      static_cast<std::int64_t>(std::floor(val_fraction * static_cast<double>(chunks)));
  const std::int64_t held =
      std::clamp<std::int64_t>(share, std::min<std::int64_t>(1, chunks), chunks);
  training_chunks_ = chunks - held;
  std::int64_t largest = 0;
  for (std::int64_t chunk = 0; chunk < training_chunks_; ++chunk) {
    windows_ += windows_of(chunk);
    largest = std::max(largest, windows_of(chunk));
  }
  for (std::int64_t chunk = training_chunks_; chunk < chunks; ++chunk) {
    if (windows_of(chunk) > 0) held_out_.push_back(chunk);
    held_out_windows_ += windows_of(chunk);
  }
  const std::int64_t windows = std::max<std::int64_t>(1, largest * kOpenChunks);
  group_size_ = (windows + batch - 1) / batch * batch;
}

std::int64_t ChunkOrder::windows_of(std::int64_t chunk) const {
  return std::max<std::int64_t>(0, tokens_[static_cast<std::size_t>(chunk)] - 1) / context_;
}

std::uint64_t ChunkOrder::seed_of(std::int64_t epoch) const {
  return mix_seed(seed_, static_cast<std::uint64_t>(epoch));
}

const ChunkOrder::Epoch& ChunkOrder::epoch_of(std::int64_t number) const {
  const auto known = std::ranges::find(epochs_, number, &Epoch::number);
  if (known != epochs_.end()) {
    epochs_.splice(epochs_.begin(), epochs_, known);
    return epochs_.front();
  }
  Epoch epoch{number, {}, {0}};
  const auto count = static_cast<std::size_t>(training_chunks_);
  const Permutation permutation(count, seed_of(number));
  epoch.chunks.reserve(count);
  epoch.before.reserve(count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    epoch.chunks.push_back(static_cast<std::int64_t>(permutation(i)));
    epoch.before.push_back(epoch.before.back() + windows_of(epoch.chunks.back()));
  }
  if (epochs_.size() >= kEpochsKept) epochs_.pop_back();
  epochs_.push_front(std::move(epoch));
  return epochs_.front();
}

ChunkOrder::Segment ChunkOrder::segment_of(std::int64_t sequence) const {
  SHOAL_CHECK(sequence >= 0 && windows_ > 0);
  const std::int64_t epoch = sequence / windows_, begin = epoch * windows_;
  const std::int64_t group = sequence / group_size_ * group_size_;
  return {epoch, std::max(group, begin) - begin,
          std::min(group + group_size_, begin + windows_) - begin};
}

WindowPlace ChunkOrder::place_of(std::int64_t sequence) const {
  const Segment segment = segment_of(sequence);
  const std::uint64_t seed = seed_of(segment.epoch);
  const std::int64_t size = segment.last - segment.first;
  const std::int64_t at = sequence - segment.epoch * windows_ - segment.first;
  const Permutation within(
      static_cast<std::uint64_t>(size),
      mix_seed(mix_seed(seed, kGroupSalt), static_cast<std::uint64_t>(segment.first)));
  const std::int64_t window =
      segment.first + static_cast<std::int64_t>(within(static_cast<std::uint64_t>(at)));
  const Epoch& epoch = epoch_of(segment.epoch);
  // The last chunk that begins at or before it; one without windows begins where the next does.
  const auto after = std::upper_bound(epoch.before.begin(), epoch.before.end(), window);
  const auto place = static_cast<std::size_t>(after - epoch.before.begin()) - 1;
  const std::int64_t chunk = epoch.chunks[place];
  const std::int64_t slack =
      tokens_[static_cast<std::size_t>(chunk)] - 1 - windows_of(chunk) * context_;
  Prng phase(mix_seed(mix_seed(seed, kPhaseSalt), static_cast<std::uint64_t>(chunk)));
  const auto from = static_cast<std::int64_t>(phase.below(static_cast<std::uint64_t>(slack) + 1));
  return {chunk, from + (window - epoch.before[place]) * context_};
}

std::vector<std::int64_t> ChunkOrder::chunks_around(std::int64_t sequence) const {
  const Segment segment = segment_of(sequence);
  const Epoch& epoch = epoch_of(segment.epoch);
  const auto after = std::upper_bound(epoch.before.begin(), epoch.before.end(), segment.first);
  std::vector<std::int64_t> chunks;
  for (auto place = static_cast<std::size_t>(after - epoch.before.begin()) - 1;
       place < epoch.chunks.size() && epoch.before[place] < segment.last; ++place) {
    if (windows_of(epoch.chunks[place]) > 0) chunks.push_back(epoch.chunks[place]);
  }
  return chunks;
}

std::int64_t ChunkOrder::held_out(std::int64_t wanted) const {
  return std::min(wanted, held_out_windows_);
}

// Chunk after chunk of as few evenly spaced ones as hold `count` windows, but kValidationChunks
// where there are so many.
WindowPlace ChunkOrder::held_out_place(std::int64_t index, std::int64_t count) const {
  SHOAL_CHECK(index >= 0 && index < count && count <= held_out_windows_);
  const auto all = static_cast<std::int64_t>(held_out_.size());
  for (std::int64_t chosen = std::min(kValidationChunks, all);;
       chosen = std::min(all, 2 * chosen)) {
    std::int64_t room = 0;
    for (std::int64_t i = 0; i < chosen; ++i) {
      room += windows_of(held_out_[static_cast<std::size_t>(i * all / chosen)]);
    }
    if (room < count) continue;
    // The windows of the chosen ones that are used are evenly spaced, too.
    std::int64_t window = index * room / count;
    for (std::int64_t i = 0; i < chosen; ++i) {
      const std::int64_t chunk = held_out_[static_cast<std::size_t>(i * all / chosen)];
      if (window < windows_of(chunk)) return {chunk, window * context_};
      window -= windows_of(chunk);
    }
  }
}

std::int64_t lease_unit(std::int64_t group_size, std::int64_t windows) {
  return windows / group_size >= kUnitsWanted ? group_size : 0;
}

}  // namespace shoal
