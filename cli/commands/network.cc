// shoal network: the lines between agents, as they were measured. shoal agent doctor: what is wrong
// with them.
#include <map>

#include "cli/commands/commands.h"
#include "cli/commands/doctor_text.h"
#include "cli/commands/network_text.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

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
  const std::string text = network_text(found->at("items"), *names, terminal().stdout_color);
  if (text.empty())
    say("No line has been measured yet: trainers measure lines in the first rounds of a job.");
  print(text);
  return kExitOk;
}

Result<int> agent_doctor(const Context& context) {
  auto agents = context.api.list("/agents");
  if (!agents) return agents.error();
  auto found = context.api.get("/network");
  if (!found) return found.error();
  const std::vector<Finding> findings = diagnose(agents->at("items"), found->at("items"));
  print(context.json ? to_json(findings).dump(2) + "\n" : to_text(findings));
  if (findings.empty()) say("Nothing is wrong with the lines that are known.");
  return !findings.empty() && findings.front().is_fault() ? kExitFailure : kExitOk;
}

}  // namespace shoal::cli
