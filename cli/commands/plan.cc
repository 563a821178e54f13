// shoal job plan, shoal job topology: how a job lies on the agents, before and while it runs.
#include <time.h>

#include "cli/commands/commands.h"
#include "cli/commands/dry_run_text.h"
#include "cli/commands/job_text.h"
#include "cli/commands/plan_tables.h"
#include "cli/format.h"
#include "cli/terminal.h"

namespace shoal::cli {

Result<int> job_plan(const Context& context, const SubmitOptions& options) {
  auto checked = post_job(context, options, true);
  if (!checked) return checked.error();
  if (context.json) return print(checked->dump(2) + "\n"), kExitOk;
  const Json* plan = at_path(*checked, "plan");
  if (plan == nullptr) {
    return Error{Code::kInternal, "the coordinator answers without a plan", "",
                 "is it older than this command? see `shoal version`"};
  }
  print(plan_text(*plan, terminal().stdout_color, static_cast<double>(::time(nullptr))));
  if (text_at(*plan, "placeable") != "true") say("It would be accepted and would wait.");
  say_notes(*checked);
  return kExitOk;
}

Result<int> job_topology(const Context& context, const std::string& job) {
  auto topology = context.api.get("/jobs/" + url_escape(job) + "/topology");
  if (!topology) return topology.error();
  if (context.json) return print(topology->dump(2) + "\n"), kExitOk;
  const std::string text = topology_text(*topology, terminal().stdout_color);
  if (text.empty())
    say("No replicas: the job waits for agents or has ended; see `shoal job get " + job + "`.");
  print(text);
  const Json* replicas = at_path(*topology, "replicas");
  const std::string lone = replicas == nullptr ? "" : lone_stages(*replicas);
  if (!lone.empty())
    say("note: " + lone + ": if such an agent is lost, the job rolls back to a checkpoint.");
  return kExitOk;
}

}  // namespace shoal::cli
