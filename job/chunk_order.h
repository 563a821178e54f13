// Which tokens of a dataset are sequence i of a job's order. Two levels, so that who trains a run
// of sequences needs few chunks (data/manifest.h) and little of others:
//
//   1. each epoch shuffles the chunks; their windows, chunk after chunk, are a stream;
//   2. the stream is cut into groups of group_size() windows, some kOpenChunks chunks each, and
//   each
//      group is shuffled.
//
// A window is `context` tokens and the one after them, all of one chunk. A chunk's windows begin at
// a phase that is drawn per epoch and chunk: what does not fill a window at its ends is another
// part each time. Every window is read exactly once per epoch. Groups begin at multiples of
// group_size() of the sequences' numbers, and where an epoch begins.
//
// The last chunks are held out for validation. All of it is a function of seed, epoch and the
// dataset. Pure; immutable except for the tables of the epochs in use, so one thread at a time.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

namespace shoal {

// Where a window lies: a chunk by its number in the dataset, and a token of it.
struct WindowPlace {
  std::int64_t chunk = 0;
  std::int64_t token = 0;
  bool operator==(const WindowPlace&) const = default;
};

class ChunkOrder {
 public:
  static constexpr std::int64_t kOpenChunks = 16;

  // `tokens`: of each chunk. `val_fraction` of the chunks are held out, at least one. Groups are of
  // whole batches. is_enough() says whether there is something to train on and to validate on; else
  // nothing may be asked.
  ChunkOrder(std::vector<std::int64_t> tokens, std::int64_t context, std::uint64_t seed,
             double val_fraction, std::int64_t batch = 1);

  bool is_enough() const { return windows_ > 0 && held_out_windows_ > 0; }
  std::int64_t windows() const { return windows_; }        // of an epoch
  std::int64_t group_size() const { return group_size_; }  // windows

  WindowPlace place_of(std::int64_t sequence) const;  // >= 0

  // The chunks of the group that the sequence is in, each once, in the order of the stream.
  std::vector<std::int64_t> chunks_around(std::int64_t sequence) const;

  // At most `wanted` windows that are held out, the same ones every time. They are those of a few
  // chunks, evenly spaced. `index` < `count` <= held_out(wanted).
  std::int64_t held_out(std::int64_t wanted) const;
  WindowPlace held_out_place(std::int64_t index, std::int64_t count) const;

 private:
  // An epoch: the chunks as they are shuffled, and the windows before each of them.
  struct Epoch {
    std::int64_t number = -1;
    std::vector<std::int64_t> chunks, before;
  };
  struct Segment {  // of the stream of an epoch: a group, or what the epoch has of it
    std::int64_t epoch = 0, first = 0, last = 0;
  };
  std::int64_t windows_of(std::int64_t chunk) const;
  const Epoch& epoch_of(std::int64_t number) const;
  Segment segment_of(std::int64_t sequence) const;
  std::uint64_t seed_of(std::int64_t epoch) const;

  std::vector<std::int64_t> tokens_;
  std::int64_t context_;
  std::uint64_t seed_;
  std::int64_t training_chunks_ = 0, windows_ = 0, held_out_windows_ = 0, group_size_ = 1;
  std::vector<std::int64_t> held_out_;  // chunks that have a window
  mutable std::list<Epoch> epochs_;     // the newest in use first, kEpochsKept at most
};

// How many sequences a replica is best leased at once (coordinator/core/decisions/data_ledger.h),
// by the size of a group and of an epoch: a group; 0, any number, where there are few of them.
std::int64_t lease_unit(std::int64_t group_size, std::int64_t windows);

}  // namespace shoal
