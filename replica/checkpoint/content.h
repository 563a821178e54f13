// The state of one stage that a checkpoint holds: what a trainer's writer gets, reports and reads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/digest.h"
#include "base/named_vectors.h"
#include "base/units.h"
#include "job/job_spec.h"
#include "messages/message_parts.h"

namespace shoal::replica {

struct CheckpointContent {
  const JobSpec& spec;  // derived fields filled
  std::vector<UnitRange> cut;
  StageIndex stage = 0;
  RoundKey key;
  Steps step;                      // of the job's schedule
  std::span<const float> anchor;   // of the stage, as are the others
  std::vector<NamedValues> outer;  // outer_vectors() of the spec's [sync]
  // The moments of the inner optimizer are those of the replica that writes; a program that keeps
  // its own has none here.
  std::span<const float> adam_m, adam_v;
  std::int64_t adam_step = 0;
};

// What the writer reports to its agent.
struct WrittenPart {
  std::vector<FileEntry> files;  // with roles; the writer hashed each file while writing it
  Digest anchor;                 // the weights are its values
};

struct Checkpoint {
  JobSpec spec;
  std::vector<UnitRange> cut;
  RoundKey key;
  Steps step;
  std::vector<float> anchor;
  NamedVectors outer;
  std::vector<float> adam_m, adam_v;
  // That of the stage; of a whole model that of the last one; where a stage of another cut is made
  // of several, the largest.
  std::int64_t adam_step = 0;
};

}  // namespace shoal::replica
