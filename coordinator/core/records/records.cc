#include "coordinator/core/records/records.h"

namespace shoal::coordinator {

std::vector<FileEntry> all_files(const CheckpointRecord& checkpoint) {
  std::vector<FileEntry> files;
  for (const CheckpointPart& part : checkpoint.parts) {
    files.insert(files.end(), part.files.begin(), part.files.end());
  }
  return files;
}

Bytes total_size(const CheckpointRecord& checkpoint) {
  Bytes total;
  for (const FileEntry& file : all_files(checkpoint)) total += file.size;
  return total;
}

bool is_terminal(JobPhase phase) {
  return phase == JobPhase::kCompleted || phase == JobPhase::kCancelled ||
         phase == JobPhase::kFailed;
}

bool is_to_let_go(const JobRecord& job) {
  return job.desired == JobDesired::kPause || job.yields_to != JobId() || job.recuts;
}

JobReason why_let_go(const JobRecord& job) {
  if (job.desired == JobDesired::kPause) return JobReason::kPausing;
  return job.yields_to != JobId() ? JobReason::kPreempted : JobReason::kRecutting;
}

bool is_terminal(ReplicaState state) {
  return state == ReplicaState::kReleased || state == ReplicaState::kFailed;
}

}  // namespace shoal::coordinator
