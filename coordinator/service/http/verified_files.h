// The files of each checkpoint that were verified since the server started. Clients verify a
// checkpoint file by file; it counts as verified with its last file. Used by one thread, which
// reads the files. Bounded to kCheckpointsMax checkpoints; the oldest is forgotten first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include "coordinator/core/records/checkpoint_record.h"

namespace shoal::coordinator::rest {

class VerifiedFiles {
 public:
  // True: all files of the checkpoint are verified now. It is then forgotten.
  bool add(const CheckpointRecord& checkpoint, const std::string& path) {
    auto known = std::ranges::find(begun_, checkpoint.id, &Begun::checkpoint);
    if (known == begun_.end()) {
      if (begun_.size() == kCheckpointsMax) begun_.pop_front();
      known = begun_.insert(begun_.end(), {checkpoint.id, {}});
    }
    known->good.insert(path);
    if (known->good.size() < all_files(checkpoint).size()) return false;
    begun_.erase(known);
    return true;
  }

  // A file of the checkpoint is damaged.
  void forget(CheckpointId checkpoint) {
    std::erase_if(begun_, [&](const Begun& begun) { return begun.checkpoint == checkpoint; });
  }

 private:
  static constexpr std::size_t kCheckpointsMax = 64;

  struct Begun {
    CheckpointId checkpoint;
    std::set<std::string> good;
  };
  std::deque<Begun> begun_;
};

}  // namespace shoal::coordinator::rest
