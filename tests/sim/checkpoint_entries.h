// How a simulated writer reports the files of a checkpoint, with their roles.
#pragma once

#include <iterator>
#include <string>
#include <vector>

#include "messages/message_parts.h"
#include "tests/sim/coordinator_process.h"

namespace shoal::sim {

// The weights, the vectors of the outer step and the part file. The hash of each is hash_of() of
// the part.
inline std::vector<FileEntry> entries_of(const CheckpointFiles& files) {
  const std::string stage = std::to_string(files.stage + 1) + ".safetensors", hash = hash_of(files);
  const auto bytes = [](const auto& values) { return Bytes(std::ssize(values) * 4); };
  std::vector<FileEntry> entries{{"model-" + stage, bytes(files.state.anchor), hash, "weights"}};
  for (const NamedVector& vector : files.state.vectors) {
    const std::string name(vector.name);
    entries.push_back({"outer_" + name + "-" + stage, bytes(vector.values), hash, "outer/" + name});
  }
  entries.push_back({"part-" + stage, Bytes(100), hash, "part"});
  return entries;
}

}  // namespace shoal::sim
