// shoal network: the lines between agents, as they were measured.
#include <map>

#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

std::string rate_of(const Json& link) {
  const double bytes = number_at(link, "bytes_per_second", 0);
  return bytes > 0 ? human_bit_rate(8 * bytes) : "-";
}

std::string round_trip_of(const Json& link) {
  const double seconds = number_at(link, "round_trip_s", 0);
  return seconds > 0 ? fixed(seconds * 1e3, 1) + " ms" : "-";
}

Result<std::map<std::string, std::string>> names_of_agents(const Context& context) {
  auto agents = context.api.list("/agents");
  if (!agents) return agents.error();
  std::map<std::string, std::string> names;
  for (const Json& agent : agents->at("items")) {
    names[text_at(agent, "id")] = text_at(agent, "name");
  }
  return names;
}

}  // namespace

Result<int> network(const Context& context) {
  auto found = context.api.get("/network");
  if (!found) return found.error();
  if (context.json) return print(found->dump(2) + "\n"), kExitOk;
  auto names = names_of_agents(context);
  if (!names) return names.error();
  const auto name_of = [&](const Json& link, const char* end) {
    const std::string& name = (*names)[text_at(link, end)];
    return name.empty() ? text_at(link, end) : name;
  };
  std::map<std::pair<std::string, std::string>, Json> sorted;
  for (const Json& link : found->at("items"))
    sorted[{name_of(link, "from"), name_of(link, "to")}] = link;
  Table table({"FROM", "TO", ">BANDWIDTH", ">ROUND TRIP", ">MEASURED"});
  for (const auto& [ends, link] : sorted) {
    const bool reached = text_at(link, "reached") == "true";
    table.add({ends.first, ends.second, reached ? rate_of(link) : "not reached",
               round_trip_of(link), human_duration(number_at(link, "age_s", 0)) + " ago"});
  }
  if (table.empty())
    say("No line has been measured yet: trainers measure lines in the first rounds of a job.");
  print(table.render(terminal().stdout_colour));
  return kExitOk;
}

}  // namespace shoal::cli
