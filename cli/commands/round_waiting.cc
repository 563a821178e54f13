#include "cli/commands/round_waiting.h"

#include <vector>

#include "cli/format.h"

namespace shoal::cli {
namespace {

// Usually the freeze follows the last report at once. After more seconds than this, the round
// waited in vain for another replica.
constexpr double kFrozenAtOnceS = 1;

const Json& list_at(const Json& object, const char* name) {
  static const Json kEmpty = Json::array();
  const Json* list = at_path(object, name);
  return list != nullptr && list->is_array() ? *list : kEmpty;
}

const Json* by_id(const Json& list, const std::string& id) {
  for (const Json& one : list) {
    if (text_at(one, "id") == id) return &one;
  }
  return nullptr;
}

// Empty when it is well.
std::string trouble_of(const Json& contribution, const RoundContext& context) {
  const Json* agent = by_id(context.agents, text_at(contribution, "agent"));
  if (agent == nullptr) return "";
  if (text_at(*agent, "state") == "gone") return "gone";
  const std::string health = text_at(*agent, "health", "green");
  if (health == "green") return "";
  const bool slow = number_at(*agent, "slow_replicas", 0) > 0;
  // A coordinator of before does not tell late ones from others that are yellow.
  const bool late = text_at(*agent, "late", slow ? "false" : "true") == "true";
  if (health == "red" || late) return "not heard from";
  return slow ? "slow" : "";
}

// What a member in this state still has to do; nullptr: nothing.
const char* due(const std::string& round_state, const std::string& state) {
  if (round_state == "open") return state == "training" ? "trains" : nullptr;
  if (state != "member" && state != "reported") return nullptr;
  if (round_state == "voting") return "has not voted";
  return round_state == "frozen" || round_state == "reducing" ? "averages" : nullptr;
}

std::string doing(const Json& round, const Json& contribution, const char* what,
                  const RoundContext& context) {
  const auto steps = steps_now(round, contribution, context);
  const std::string trouble = trouble_of(contribution, context);
  const double all = number_at(round, "to_step") - number_at(round, "from_step");
  return text_at(contribution, "replica") + " of " +
         agent_name(context, text_at(contribution, "agent")) + " (" +
         (steps ? "step " + fixed(*steps, 0) + " of " + fixed(all, 0) : what) +
         (trouble.empty() ? "" : ", " + trouble) + ")";
}

std::string line_of_open(const Json& round, const RoundContext& context) {
  std::string names;
  for (const Json& member : list_at(round, "contributions")) {
    const char* what = due(text_at(round, "state"), text_at(member, "state"));
    if (what != nullptr) {
      names += (names.empty() ? "" : ", ") + doing(round, member, what, context);
    }
  }
  return names.empty() ? "" : "waits for " + names + "\n";
}

struct Reports {
  const Json* first = nullptr;  // who waited longest for the freeze
  const Json* last = nullptr;
  double first_wait_s = 0, last_wait_s = 0;
};

Reports reports_of(const Json& round) {
  Reports reports;
  for (const Json& member : list_at(round, "contributions")) {
    const Json* wait = at_path(member, "phases/wait_s");
    if (wait == nullptr || !wait->is_number()) continue;
    const double wait_s = wait->get<double>();
    if (wait_s < 0) continue;  // of an asynchronous round: it came after the freeze
    if (reports.first == nullptr || wait_s > reports.first_wait_s) {
      reports.first = &member;
      reports.first_wait_s = wait_s;
    }
    if (reports.last == nullptr || wait_s < reports.last_wait_s) {
      reports.last = &member;
      reports.last_wait_s = wait_s;
    }
  }
  return reports;
}

std::string line_of_frozen(const Json& round, const RoundContext& context) {
  const Reports reports = reports_of(round);
  if (reports.first == reports.last) return "";
  std::string text = agent_name(context, text_at(*reports.last, "agent")) + " reported last, " +
                     human_duration(reports.first_wait_s - reports.last_wait_s) + " after " +
                     agent_name(context, text_at(*reports.first, "agent"));
  if (reports.last_wait_s >= kFrozenAtOnceS) {
    text += "; the round waited " + human_duration(reports.last_wait_s) + " more for the others";
  }
  return text + "\n";
}

}  // namespace

std::string agent_name(const RoundContext& context, const std::string& id) {
  const Json* agent = by_id(context.agents, id);
  return agent != nullptr ? text_at(*agent, "name", id) : id;
}

std::string failure_of(const RoundContext& context, const std::string& replica) {
  const Json* known = by_id(context.replicas, replica);
  return known != nullptr ? text_at(*known, "failure", "") : "";
}

std::optional<double> steps_now(const Json& round, const Json& contribution,
                                const RoundContext& context) {
  if (text_at(contribution, "state") != "training") return std::nullopt;
  const Json* replica = by_id(context.replicas, text_at(contribution, "replica"));
  if (replica == nullptr) return std::nullopt;
  const Json* step = at_path(*replica, "live/inner_step");
  const bool of_this = number_at(*replica, "live/round", -1) == number_at(round, "round", -2);
  if (step == nullptr || !step->is_number() || !of_this) return std::nullopt;
  return step->get<double>() - number_at(round, "from_step");
}

std::string waiting_line(const Json& round, const RoundContext& context) {
  const std::string open = line_of_open(round, context);
  return open.empty() ? line_of_frozen(round, context) : open;
}

}  // namespace shoal::cli
