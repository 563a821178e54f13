// The results of a campaign for people (a table with the targets) and for machines (JSON, with the
// sweeps and the loss over inner steps).
#pragma once

#include <string>
#include <vector>

#include "bench/convergence/campaign.h"

namespace shoal::bench {

std::string table_of(const std::vector<ArmResult>& results);
std::string json_of(const CampaignOptions& options, const std::vector<ArmResult>& results);

}  // namespace shoal::bench
