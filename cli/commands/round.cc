// shoal round …
#include "cli/commands/commands.h"
#include "cli/commands/load_text.h"
#include "cli/commands/round_tables.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

std::string path_of(const std::string& job) { return "/jobs/" + url_escape(job) + "/rounds"; }

Result<Json> newest_round(const Context& context, const std::string& job) {
  auto newest = context.api.list(path_of(job) + "?order=desc", 1);
  if (!newest) return newest.error();
  if (newest->at("items").empty()) {
    return Error{Code::kNotFound, "the job has no rounds yet", "",
                 "`shoal job get " + job + "` says what it waits for"};
  }
  return newest->at("items").front();
}

}  // namespace

Result<int> round_ls(const Context& context, const std::string& job) {
  auto rounds = context.api.list(path_of(job));
  if (!rounds) return rounds.error();
  if (context.json) return print(rounds->dump(2) + "\n"), kExitOk;
  if (rounds->at("items").empty()) say("No rounds yet.");
  print(rounds_table(rounds->at("items"), terminal().stdout_color));
  return kExitOk;
}

Result<int> round_get(const Context& context, const std::string& job, const std::string& round) {
  auto found = round.empty() ? newest_round(context, job)
                             : context.api.get(path_of(job) + "/" + url_escape(round));
  if (!found) return found.error();
  if (context.json) return print(found->dump(2) + "\n"), kExitOk;
  auto agents = context.api.list("/agents?gone=true");
  if (!agents) return agents.error();
  auto replicas = context.api.list("/jobs/" + url_escape(job) + "/replicas");
  if (!replicas) return replicas.error();
  const RoundContext beside{agents->at("items"), replicas->at("items")};
  print(round_text(*found, beside, terminal().stdout_color));
  if (round.empty()) print(loading_lines(replicas->at("items"), agents->at("items")));
  return kExitOk;
}

}  // namespace shoal::cli
