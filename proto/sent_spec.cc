#include "proto/sent_spec.h"

#include "proto/job_spec_fields.h"

namespace shoal::proto {

std::string sent_spec(const JobSpec& spec) {
  using Json = nlohmann::ordered_json;
  const JobOptions options = options_of(spec);
  const JobOptions usual = default_options(options.sync.algorithm);
  Json root = Json::object();
  for (const SpecField& f : spec_fields()) {
    Json value = f.write(options);
    // The algorithm decides the defaults of others.
    const bool decides = f.table == "sync" && f.key == "algorithm";
    if (!decides && value == f.write(usual)) continue;
    const std::string table = f.table.empty() ? "" : "/" + f.table;
    root[Json::json_pointer(table + "/" + f.key)] = std::move(value);
  }
  return root.dump();
}

}  // namespace shoal::proto
