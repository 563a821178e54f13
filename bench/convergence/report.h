// The results of a campaign for people (a table), for machines (JSON) and for the documentation (a
// page of Markdown and a plot as SVG).
#pragma once

#include <string>
#include <vector>

#include "bench/convergence/campaign.h"

namespace shoal::bench {

std::string table_of(const std::vector<ArmResult>& results);
std::string json_of(const CampaignOptions& options, const std::vector<ArmResult>& results);
std::string markdown_of(const CampaignOptions& options, const std::vector<ArmResult>& results);
// Mean loss over inner steps, one line per tuned arm.
std::string svg_of(const std::vector<ArmResult>& results);

}  // namespace shoal::bench
