#include "proto/sent_spec.h"

#include "job/job_rules.h"
#include "proto/job_spec_fields.h"

namespace shoal::proto {

std::string sent_spec(const JobSpec& spec) {
  using Json = nlohmann::ordered_json;
  JobSpec usual = default_spec(spec.sync.algorithm, spec.sync.outer.method);
  usual.sync.outer.method = OuterMethod::kNesterov;  // so that another one is sent
  Json root = Json::object();
  for (const SpecField& f : spec_fields()) {
    Json value = f.write(spec);
    // The algorithm, and after it the outer optimizer, decides the defaults of others.
    const bool decides = f.table == "sync" && f.key == "algorithm";
    if (!decides && value == f.write(usual)) continue;
    const std::string table = f.table.empty() ? "" : "/" + f.table;
    root[Json::json_pointer(table + "/" + f.key)] = std::move(value);
  }
  return root.dump();
}

}  // namespace shoal::proto
