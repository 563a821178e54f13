// The lists and nested values of records that live in JSON columns. Numbers keep their exact value;
// a number that is not finite is null. Reading refuses what writing does not produce (kDataLoss).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "coordinator/core/records/records.h"

namespace shoal::coordinator {

using Labels = std::vector<std::pair<std::string, std::string>>;

std::string to_json(const JobSpec& value);
std::string to_json(const std::vector<DataLease>& value);
std::string to_json(const std::vector<Device>& value);
std::string to_json(const Labels& value);
std::string to_json(const std::vector<JobStage>& value);
std::string to_json(const std::vector<RoundStage>& value);
std::string to_json(const std::vector<CheckpointPart>& value);
std::string to_json(const std::vector<MemoryRefusal>& value);
std::string to_json(const StateSource& value);

Status from_json(std::string_view text, JobSpec& value);
Status from_json(std::string_view text, std::vector<DataLease>& value);
Status from_json(std::string_view text, std::vector<Device>& value);
Status from_json(std::string_view text, Labels& value);
Status from_json(std::string_view text, std::vector<JobStage>& value);
Status from_json(std::string_view text, std::vector<RoundStage>& value);
Status from_json(std::string_view text, std::vector<CheckpointPart>& value);
Status from_json(std::string_view text, std::vector<MemoryRefusal>& value);
Status from_json(std::string_view text, StateSource& value);

}  // namespace shoal::coordinator
