// shoal admin space: what takes the space of the coordinator's folder, by kind and by job.
#include "base/number_text.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

// Words of the API as people read them.
std::string kind_text(std::string what) {
  for (char& c : what) c = c == '_' ? ' ' : c;
  return what;
}

std::string size_at(const Json& object, const char* field) {
  const double bytes = number_at(object, field);
  return bytes == 0 ? "-" : size_text(bytes);
}

Table by_kind(const Json& space) {
  Table table({"WHAT", ">SIZE"});
  double total = 0;
  for (const Json& part : space.at("parts")) {
    total += number_at(part, "bytes");
    table.add({kind_text(text_at(part, "what")), size_at(part, "bytes")});
  }
  table.add({"total", size_text(total)});
  return table;
}

Table by_job(const Json& space) {
  Table table({"JOB", "OWNER", "PHASE", ">CHECKPOINTS", ">HISTORY", ">SERIES"});
  for (const Json& job : space.at("jobs")) {
    const std::string name = text_at(job, "name", ""), phase = text_at(job, "phase");
    table.add({name.empty() ? text_at(job, "job") + " (removed)" : name,
               text_at(job, "owner"),
               {phase, color_of_state(phase)},
               size_at(job, "checkpoints"),
               size_at(job, "history"),
               size_at(job, "series")});
  }
  return table;
}

}  // namespace

Result<int> admin_space(const Context& context) {
  const auto space = context.api.get("/space");
  if (!space) return space.error();
  if (context.json) return print(space->dump(2) + "\n"), kExitOk;
  const bool color = terminal().stdout_color;
  print(by_kind(*space).render(color) + "\n" + by_job(*space).render(color));
  const double budget = number_at(*space, "checkpoint_budget");
  if (budget > 0) say("Checkpoints may take " + size_text(budget) + " (--checkpoints-max-gib).");
  return kExitOk;
}

}  // namespace shoal::cli
