// How a simulated writer reports the files of a checkpoint, with their roles.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "messages/message_parts.h"
#include "tests/sim/coordinator_process.h"

namespace shoal::sim {

// The weights, the outer momentum and the part file. The hash of each is hash_of() of the part.
inline std::vector<FileEntry> entries_of(const CheckpointFiles& files) {
  const std::string stage = std::to_string(files.stage + 1) + ".safetensors", hash = hash_of(files);
  const auto bytes = [](const auto& values) { return Bytes(std::ssize(values) * 4); };
  return {{"model-" + stage, bytes(files.state.anchor), hash, "weights"},
          {"outer-" + stage, bytes(files.state.momentum), hash, "outer/momentum"},
          {"part-" + stage, Bytes(100), hash, "part"}};
}

}  // namespace shoal::sim
