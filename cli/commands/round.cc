// shoal round …
#include "cli/commands/commands.h"
#include "cli/commands/round_tables.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

std::string path_of(const std::string& job) { return "/jobs/" + url_escape(job) + "/rounds"; }

}  // namespace

Result<int> round_ls(const Context& context, const std::string& job) {
  auto rounds = context.api.list(path_of(job));
  if (!rounds) return rounds.error();
  if (context.json) return print(rounds->dump(2) + "\n"), kExitOk;
  if (rounds->at("items").empty()) say("No rounds yet.");
  print(rounds_table(rounds->at("items"), terminal().stdout_colour));
  return kExitOk;
}

Result<int> round_get(const Context& context, const std::string& job, const std::string& round) {
  auto found = context.api.get(path_of(job) + "/" + url_escape(round));
  if (!found) return found.error();
  if (context.json) return print(found->dump(2) + "\n"), kExitOk;
  auto agents = context.api.list("/agents?gone=true");
  if (!agents) return agents.error();
  std::map<std::string, std::string> names;
  for (const Json& agent : agents->at("items"))
    names[text_at(agent, "id")] = text_at(agent, "name");
  print(round_text(*found, names, terminal().stdout_colour));
  return kExitOk;
}

}  // namespace shoal::cli
