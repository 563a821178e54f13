// A placement decision as JSON: the answer of a dry run, and its parts. What is not known is null.
#pragma once

#include <functional>

#include "coordinator/core/decisions/placement.h"
#include "coordinator/service/http/message.h"
#include "job/job_spec.h"

namespace shoal::coordinator::rest {

using NameOf = std::function<std::string(AgentId)>;

Json plan_json(const JobSpec& spec, const PlacementDecision& decision, const NameOf& name_of);

Json forecast_json(const Forecast& forecast, const NameOf& name_of);
Json left_out_json(const std::vector<LeftOut>& left_out, const NameOf& name_of);
Json loaded_json(const std::vector<LoadedDevice>& loaded, const NameOf& name_of);

// One object per stage: its units and layers, parameters, and the memory of one replica.
Json cut_json(const JobSpec& spec, const std::vector<UnitRange>& cut);

}  // namespace shoal::coordinator::rest
