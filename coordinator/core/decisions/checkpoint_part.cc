#include "coordinator/core/decisions/checkpoint_part.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace shoal::coordinator {
namespace {

// "model", or "model-00002-of-00004" for stage 1 of 4.
std::string stem_of(const char* stem, StageIndex stage, std::size_t stages) {
  if (stages == 1) return stem;
  char numbers[32];
  std::snprintf(numbers, sizeof numbers, "-%05d-of-%05zu", stage + 1, stages);
  return stem + std::string(numbers);
}

// What a resume of the stage reads, as writers of protocol 4 name it.
std::vector<std::string> names_wanted(const PartToCheck& part) {
  const auto tensors = [&](const char* stem) {
    return stem_of(stem, part.stage, part.stages) + ".safetensors";
  };
  if (part.spec.trainer.kind == TrainerKind::kPython) {
    const std::string head = part.stage == 0 ? "shoal" : stem_of("shoal", part.stage, part.stages);
    return {tensors("model"), tensors("outer"), head + ".json"};
  }
  std::vector<std::string> names{tensors("model"), tensors("shoal_state")};
  if (part.stage == 0) names.push_back("shoal.json");
  return names;
}

std::vector<std::string> roles_wanted(const JobSpec& spec) {
  std::vector<std::string> roles{"part", "weights"};
  for (const std::string_view vector : outer_vectors(spec.sync)) {
    roles.push_back("outer/" + std::string(vector));
  }
  return roles;
}

std::string first_missing(const std::vector<std::string>& wanted,
                          const std::vector<FileEntry>& files, std::string FileEntry::*what) {
  for (const std::string& name : wanted) {
    if (std::ranges::find(files, name, what) == files.end()) return name;
  }
  return {};
}

}  // namespace

PartVerdict check_part(const PartToCheck& part) {
  std::set<std::string> paths;
  for (const FileEntry& file : part.files) {
    if (!paths.insert(file.path).second) return {PartProblem::kTwice, file.path};
  }
  const auto with_role =
      std::ranges::find_if(part.files, [](const FileEntry& file) { return !file.role.empty(); });
  const bool has_roles = with_role != part.files.end();
  const auto without = std::ranges::find(part.files, std::string(), &FileEntry::role);
  if (has_roles && without != part.files.end()) return {PartProblem::kWithoutRole, without->path};
  const std::string missing =
      has_roles ? first_missing(roles_wanted(part.spec), part.files, &FileEntry::role)
                : first_missing(names_wanted(part), part.files, &FileEntry::path);
  if (!missing.empty()) return {PartProblem::kMissing, missing};
  const bool must_say = has_roles || part.anchor;
  if (must_say && part.anchor != part.committed) return {PartProblem::kOtherAnchor, {}};
  return {};
}

std::string sentence_of(const PartVerdict& verdict) {
  switch (verdict.problem) {
    case PartProblem::kNone:
      return "it is complete";
    case PartProblem::kMissing:
      return "it has no file " + verdict.file;
    case PartProblem::kTwice:
      return "its writer named the file " + verdict.file + " twice";
    case PartProblem::kWithoutRole:
      return "its writer did not say what the file " + verdict.file + " is";
    case PartProblem::kOtherAnchor:
      return "its weights are not of the anchor that the job has committed";
  }
  return {};
}

}  // namespace shoal::coordinator
