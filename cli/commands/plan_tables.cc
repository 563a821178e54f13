#include "cli/commands/plan_tables.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/number_text.h"
#include "cli/format.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

// "-" when the number is not known.
template <typename Format>
std::string cell(const Json& object, std::string_view path, Format format) {
  const Json* value = at_path(object, path);
  return value != nullptr && value->is_number() ? format(value->get<double>()) : "-";
}

std::string count(double value) { return fixed(value, 0); }
std::string percent(double share) { return fixed(100 * share, 0) + " %"; }
std::string bits(double bytes_per_second) { return human_bit_rate(8 * bytes_per_second); }
std::string two_digits(double value) { return fixed(value, 2); }

const Json& list_at(const Json& object, const char* name) {
  static const Json kEmpty = Json::array();
  const Json* list = at_path(object, name);
  return list != nullptr && list->is_array() ? *list : kEmpty;
}

// "agent-1, agent-3" of one stage, in the order of `shoal agent ls`.
std::string agents_of(const Json& plan, double stage) {
  std::vector<std::string> names;
  for (const Json& place : list_at(plan, "placement")) {
    if (number_at(place, "stage", -1) == stage) names.push_back(text_at(place, "agent_name"));
  }
  std::sort(names.begin(), names.end(), comes_before);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "-" : text;
}

std::string stages_table(const Json& plan, bool color) {
  Table table({">STAGE", ">LAYERS", ">PARAMETERS", ">MEMORY", "AGENTS"});
  for (const Json& stage : list_at(plan, "stages")) {
    table.add({cell(stage, "stage", count), cell(stage, "layers", count),
               cell(stage, "parameters", human_count), cell(stage, "memory_bytes", size_text),
               agents_of(plan, number_at(stage, "stage", -1))});
  }
  return table.empty() ? "" : table.render(color);
}

// The line that binds, and what was assumed of others.
std::string line_text(const Json& forecast) {
  std::string text;
  if (const Json* line = at_path(forecast, "line"); line != nullptr && line->is_object()) {
    std::string names;
    for (const Json& name : list_at(*line, "agents")) {
      names += (names.empty() ? "" : ", ") + name.get<std::string>();
    }
    text += "limit       the line of " + names + ": " + cell(*line, "bytes_per_second", size_text) +
            "/s lets " + cell(forecast, "network", percent) + " of the devices' speed through\n";
  }
  if (const double assumed = number_at(forecast, "lines_assumed", 0); assumed > 0) {
    text += "assumed     100 Mbit/s for the lines of " + count(assumed) +
            (assumed == 1 ? " agent" : " agents") + ", which nobody has measured\n";
  }
  return text;
}

// The sources of the lines. A coordinator of an earlier version does not say.
std::string measured_text(const Json& forecast, double now_unix_s) {
  const double peers = number_at(forecast, "lines_to_peers", 0);
  const double coordinator = number_at(forecast, "lines_to_coordinator", 0);
  if (peers + coordinator == 0) return "";
  const auto agents = [](double n) { return count(n) + (n == 1 ? " agent" : " agents"); };
  std::string text;
  if (peers > 0) text = "of " + agents(peers) + " measured to other agents";
  if (coordinator > 0) {
    text += std::string(text.empty() ? "" : ", ") + "of " + agents(coordinator) +
            " measured to the coordinator, whose own line may be the slower one";
  }
  return "lines       " + text + "; the oldest " +
         human_age(text_at(forecast, "lines_measured_at"), now_unix_s) + "\n";
}

// Where the speeds come from. A coordinator of an earlier version does not say.
std::string speeds_text(const Json& forecast) {
  const double assumed = number_at(forecast, "speeds_assumed", -1);
  if (assumed < 0) return "at most: by the speed of a matrix product";
  if (assumed == 0) return "as the devices measured a block of this model";
  return "at most: " + count(assumed) + (assumed == 1 ? " device" : " devices") +
         " not measured for this model, so by a matrix product";
}

// `from`: what it goes by; empty: as the plan says. An empty text: no speed is known.
std::string forecast_lines(const Json& plan, const std::string& from, double now_unix_s) {
  const Json* forecast = at_path(plan, "forecast");
  if (forecast == nullptr || cell(*forecast, "tokens_per_second", count) == "-") return "";
  const std::string average = cell(*forecast, "average_s", human_duration);
  return "forecast    " + cell(*forecast, "tokens_per_second", human_count) + " tokens/s, " +
         (from.empty() ? speeds_text(*forecast) : from) + "\nstep        " +
         cell(*forecast, "step_s", human_duration) + "\nround       " +
         cell(*forecast, "round_s", human_duration) +
         (average == "-" ? "" : ", of which " + average + " averaging") + "\nbubble      " +
         cell(*forecast, "bubble", percent) + "\n" + line_text(*forecast) +
         measured_text(*forecast, now_unix_s);
}

std::string left_out_text(const Json& plan) {
  std::string text;
  for (const Json& left : list_at(plan, "left_out")) {
    text += "left out    " + text_at(left, "agent_name") + ", device " +
            cell(left, "device", count) + ": " + cell(left, "tokens_per_second_with", human_count) +
            " tokens/s with it";
    const std::string line = cell(left, "line_bytes_per_second", size_text);
    text += line == "-" ? "\n" : "; its line carries " + line + "/s\n";
  }
  return text;
}

std::string used_text(const Json& plan) {
  std::string text;
  for (const Json& used : list_at(plan, "used_by_others")) {
    text += "in use      " + text_at(used, "agent_name") + ", device " +
            cell(used, "device", count) + ": others take " + cell(used, "share", percent) +
            " of its time, so plans count it with the rest\n";
  }
  return text;
}

bool is_object(const Json* value) { return value != nullptr && value->is_object(); }

// ", 12 s ago"
std::string ago(const Json& object, double now_unix_s) {
  return ", " + human_age(text_at(object, "at"), now_unix_s) + "\n";
}

std::string balance_text(const Json& placement, double now_unix_s) {
  const Json* look = at_path(placement, "balance");
  if (!is_object(look)) return "";
  const std::string reason = text_at(*look, "reason", "");
  return "balance     stage " + cell(*look, "weakest_stage", count) + " makes " +
         cell(*look, "weakest_tokens_per_second", human_count) + " tokens/s, the mean is " +
         cell(*look, "mean_tokens_per_second", human_count) + " (" +
         words(text_at(*look, "verdict")) + ")" + (reason.empty() ? "" : ": " + reason) +
         ago(*look, now_unix_s);
}

std::string move_text(const Json& placement, double now_unix_s) {
  const Json* move = at_path(placement, "move");
  if (!is_object(move)) return "";
  return "move        " + text_at(*move, "reason") + ago(*move, now_unix_s);
}

std::string comparison_text(const Json& placement, double now_unix_s) {
  const Json* plan = at_path(placement, "plan");
  if (!is_object(plan)) return "";
  return "anew        " + cell(*plan, "tokens_per_second_anew", human_count) +
         " tokens/s if it were paused and resumed, by what devices promise; " +
         cell(*plan, "tokens_per_second_now", human_count) + " as it is placed" +
         ago(*plan, now_unix_s);
}

std::string replicas_table(const Json& topology, bool color) {
  Table table({">STAGE", "REPLICA", "AGENT", "STATE", ">GFLOP/S", ">QUEUED", ">IN FLIGHT",
               ">SERVICE", ">MICROBATCHES/S", ">BUSY"});
  for (const Json& replica : list_at(topology, "replicas")) {
    const std::string state = text_at(replica, "state");
    table.add({cell(replica, "stage", count),
               text_at(replica, "id"),
               text_at(replica, "agent_name"),
               {state, color_of_state(state)},
               cell(replica, "gflops", count),
               cell(replica, "queued", count),
               cell(replica, "in_flight", count),
               cell(replica, "service_s", human_duration),
               cell(replica, "microbatches_per_second", two_digits),
               cell(replica, "busy", percent)});
  }
  return table.empty() ? "" : table.render(color);
}

std::string links_table(const Json& topology, bool color) {
  std::map<std::string, int> served;  // replicas by agent
  for (const Json& replica : list_at(topology, "replicas")) {
    ++served[text_at(replica, "agent_name")];
  }
  std::map<std::string, std::string> agents;  // by replica, which is named where it needs to be
  for (const Json& replica : list_at(topology, "replicas")) {
    const std::string agent = text_at(replica, "agent_name"), id = text_at(replica, "id");
    agents[id] = served[agent] > 1 ? agent + " " + id : agent;
  }
  Table table({"FROM", "TO", ">SENT", ">RECEIVED", ">ROUND TRIP"});
  for (const Json& link : list_at(topology, "links")) {
    table.add({agents[text_at(link, "from")], agents[text_at(link, "to")],
               cell(link, "sent_per_second", bits), cell(link, "received_per_second", bits),
               cell(link, "round_trip_s", human_duration)});
  }
  return table.empty() ? "" : "\n" + table.render(color);
}

}  // namespace

std::string plan_text(const Json& plan, bool color, double now_unix_s) {
  const std::string reason = text_at(plan, "reason");
  const std::string detail = text_at(plan, "detail", "");
  std::string text = stages_table(plan, color) + forecast_lines(plan, "", now_unix_s) +
                     left_out_text(plan) + used_text(plan);
  if (reason != "placed") text += words(reason) + (detail.empty() ? "" : ": " + detail) + "\n";
  return text;
}

std::string placement_text(const Json& placement, double now_unix_s) {
  std::string text =
      forecast_lines(placement, "from what replicas and lines were seen to do", now_unix_s);
  if (!text.empty() && !is_object(at_path(placement, "forecast/line"))) {
    text += "limit       what the devices compute\n";
  }
  return text + left_out_text(placement) + used_text(placement) +
         balance_text(placement, now_unix_s) + move_text(placement, now_unix_s) +
         comparison_text(placement, now_unix_s);
}

std::string topology_text(const Json& topology, bool color) {
  return replicas_table(topology, color) + links_table(topology, color);
}

}  // namespace shoal::cli
