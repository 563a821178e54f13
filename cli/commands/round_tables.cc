#include "cli/commands/round_tables.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/number_text.h"
#include "cli/format.h"
#include "cli/progress.h"
#include "cli/table.h"

namespace shoal::cli {
namespace {

const Json& list_at(const Json& object, const char* name) {
  static const Json kEmpty = Json::array();
  const Json* list = at_path(object, name);
  return list != nullptr && list->is_array() ? *list : kEmpty;
}

template <typename Format>
std::string cell(const Json& object, std::string_view path, Format format) {
  const Json* value = at_path(object, path);
  return value != nullptr && value->is_number() ? format(value->get<double>()) : "-";
}

std::string count(double value) { return fixed(value, 0); }
std::string loss(double value) { return fixed(value, 3); }
std::string percent(double share) { return fixed(100 * share, 0) + " %"; }

double sent_by(const Json& round) {
  double sum = 0;
  for (const Json& member : list_at(round, "contributions")) sum += number_at(member, "bytes_sent");
  return sum;
}

// -1: it averages in no group.
int group_of(const Json& contribution) {
  return static_cast<int>(number_at(contribution, "group", -1));
}

using Groups = std::map<int, std::vector<std::string>>;  // agents

Groups groups_of(const Json& round, const RoundContext& context) {
  Groups groups;
  for (const Json& member : list_at(round, "contributions")) {
    if (group_of(member) < 0) continue;
    groups[group_of(member)].push_back(agent_name(context, text_at(member, "agent")));
  }
  return groups;
}

bool gave_up(const Json& round, int group) {
  const Json& reduces = list_at(round, "reduces");
  const auto at = static_cast<std::size_t>(group);
  return at < reduces.size() && text_at(reduces[at], "given_up", "false") == "true";
}

// "4", "4, 1 gave up".
std::string groups_cell(const Json& round) {
  const Groups groups = groups_of(round, {});
  if (groups.empty()) return "-";
  const auto failed = std::count_if(groups.begin(), groups.end(),
                                    [&](const auto& group) { return gave_up(round, group.first); });
  return std::to_string(groups.size()) +
         (failed > 0 ? ", " + std::to_string(failed) + " gave up" : "");
}

// For a lost member the reason is that of its replica.
std::string contribution_state(const Json& contribution, const RoundContext& context) {
  const bool lost = text_at(contribution, "state") == "lost";
  const std::string reason = lost ? failure_of(context, text_at(contribution, "replica"))
                                  : text_at(contribution, "reject_reason", "");
  return text_at(contribution, "state") + (reason.empty() ? "" : ": " + words(reason));
}

// For a member that still trains, the steps that it has reported so far.
std::string steps_cell(const Json& round, const Json& member, const RoundContext& context) {
  const auto now = steps_now(round, member, context);
  return now ? count(*now) : cell(member, "steps", count);
}

std::string contributions_table(const Json& round, const RoundContext& context, bool color) {
  Table table({"REPLICA", "AGENT", ">STAGE", ">GROUP", "STATE", ">STEPS", ">TOKENS", ">TRAINED",
               ">WAITED", ">WEIGHT", ">LOSS", ">NORM", ">SENT", "AVERAGE"});
  for (const Json& member : list_at(round, "contributions")) {
    const std::string state = text_at(member, "state");
    table.add({text_at(member, "replica"),
               agent_name(context, text_at(member, "agent")),
               cell(member, "stage", count),
               cell(member, "group", count),
               {contribution_state(member, context), color_of_state(state)},
               steps_cell(round, member, context),
               cell(member, "tokens", human_count),
               cell(member, "phases/train_s", human_duration),
               cell(member, "phases/wait_s", human_duration),
               cell(member, "weight", human_count),
               cell(member, "train_loss", loss),
               cell(member, "norm", loss),
               cell(member, "bytes_sent", size_text),
               text_at(member, "digest").substr(0, 8)});
  }
  return table.empty() ? "" : table.render(color);
}

std::string group_lines(const Json& round, const RoundContext& context) {
  std::string text;
  for (const auto& [group, members] : groups_of(round, context)) {
    std::string names;
    for (const std::string& name : members) names += (names.empty() ? "" : ", ") + name;
    text +=
        "group " + std::to_string(group) + "  " + names +
        (gave_up(round, group) ? "  gave up; it keeps what it trained for its next round" : "") +
        "\n";
  }
  return text;
}

// How the values traveled, of each reduce where they differ.
std::string topology_lines(const Json& round) {
  std::string text;
  const Json& reduces = list_at(round, "reduces");
  for (std::size_t i = 0; i < reduces.size(); ++i) {
    const std::string topology = text_at(reduces[i], "topology", "");
    std::string way = topology + ": " + text_at(reduces[i], "topology_reason", "");
    if (reduces[i].value("entropy_coding", Json()) == true) way += "; entropy coded";
    if (topology.empty() || text.find(way) != std::string::npos) continue;
    text += "sent by " + way + "\n";
  }
  return text;
}

}  // namespace

std::string digest_cell(const Json& round) {
  std::map<std::pair<double, int>, std::string> averages;  // by stage and group
  for (const Json& member : list_at(round, "contributions")) {
    const std::string digest = text_at(member, "digest", "");
    if (digest.empty()) continue;
    std::string& first = averages[{number_at(member, "stage"), group_of(member)}];
    if (first.empty()) first = digest;
    if (digest != first) return "DIFFERENT";
  }
  return averages.empty() ? "-" : text_at(round, "digest").substr(0, 8);
}

std::string rounds_table(const Json& rounds, bool color) {
  const bool grouped = std::any_of(rounds.begin(), rounds.end(),
                                   [](const Json& round) { return !groups_of(round, {}).empty(); });
  std::vector<std::string> header = {">ROUND",  "STATE",       ">STEP", ">MEMBERS",
                                     ">TRAIN",  ">VALIDATION", ">SENT", ">TRAINING",
                                     ">REDUCE", ">BUSY",       "DIGEST"};
  if (grouped) header.insert(header.begin() + 4, "GROUPS");
  Table table(header);
  for (const Json& round : rounds) {
    const std::string state = text_at(round, "state");
    std::vector<Cell> row = {text_at(round, "round"),
                             {state, color_of_state(state)},
                             text_at(round, "to_step"),
                             std::to_string(list_at(round, "contributions").size()),
                             cell(round, "train_loss", loss),
                             cell(round, "validation_loss", loss),
                             size_text(sent_by(round)),
                             cell(round, "seconds/train", human_duration),
                             cell(round, "seconds/reduce", human_duration),
                             cell(round, "compute_utilisation", percent),
                             digest_cell(round)};
    if (grouped) row.insert(row.begin() + 4, groups_cell(round));
    table.add(std::move(row));
  }
  return table.empty() ? "" : table.render(color);
}

std::string round_text(const Json& round, const RoundContext& context, bool color) {
  std::string text = "round " + text_at(round, "round") + "  " + text_at(round, "state") +
                     ", steps " + text_at(round, "from_step") + " to " + text_at(round, "to_step") +
                     ", attempt " + text_at(round, "attempt") + ", average " + digest_cell(round) +
                     "\n";
  if (number_at(round, "aborts") > 0) {
    text += "aborted before: " + words(text_at(round, "abort_reason")) + "\n";
  }
  text += topology_lines(round) + waiting_line(round, context);
  return text + "\n" + contributions_table(round, context, color) + group_lines(round, context);
}

}  // namespace shoal::cli
