// One agent: shows it, takes it out of service and puts it back.
#include <ctime>
#include <utility>

#include "base/number_text.h"
#include "cli/api.h"
#include "cli/commands/agent_text.h"
#include "cli/commands/commands.h"
#include "cli/commands/load_text.h"
#include "cli/format.h"
#include "cli/terminal.h"

namespace shoal::cli {
namespace {

std::string path_of(const std::string& agent) { return "/agents/" + url_escape(agent); }

std::string line(const std::string& name, const std::string& value) {
  return name + std::string(name.size() < 14 ? 14 - name.size() : 1, ' ') + value + "\n";
}

// "cpu EPYC, 4.00 GB", and what it could not hold.
std::string device_text(const Json& agent, const Json& device) {
  std::string text = text_at(device, "kind") + " " + text_at(device, "name", "") + ", " +
                     size_text(number_at(device, "memory_bytes", 0));
  const double gflops = number_at(device, "gflops", 0);
  if (gflops > 0) text += ", " + fixed(gflops, 0) + " GFLOP/s";
  text += sample_text(agent, device);
  for (const Json& refusal : agent.at("memory_refusals")) {
    if (number_at(refusal, "device", -1) != number_at(device, "index", -2)) continue;
    const std::string code = text_at(refusal, "code", "");
    text +=
        code.empty()
            ? "; ran out of memory at " + size_text(number_at(refusal, "needed_bytes", 0)) +
                  ", so nothing that large is placed there"
            : "; ran out of memory with the program " + code + ", which is not tried there again";
  }
  for (const Json& cordon : agent.value("cordoned_devices", Json::array())) {
    if (number_at(cordon, "device", -1) != number_at(device, "index", -2)) continue;
    text += "; " + cordon_text(agent, cordon);
  }
  for (const Json& failure : agent.value("device_failures", Json::array())) {
    if (number_at(failure, "device", -1) != number_at(device, "index", -2)) continue;
    text += "; trains nothing, because its trainer " + text_at(failure, "reason");
  }
  return text;
}

std::string violations_text(const Json& agent) {
  if (!agent.at("quarantine").is_null()) {
    return "quarantined until " + text_at(agent, "quarantine/until") + ": " +
           text_at(agent, "quarantine/reason");
  }
  const std::string violations = text_at(agent, "violations");
  return violations == "0" ? "none" : violations + " lately";
}

constexpr double kAskEveryS = 0.5;
constexpr const char* kJobsWithReplicas =
    "/jobs?phase=gathering,warming,training,stalled,finalizing";

// "mine, stage 0: rep_2 serving" of each replica that it holds.
Result<std::string> work_of(const Context& context, const std::string& agent_id) {
  auto jobs = context.api.list(kJobsWithReplicas);
  if (!jobs) return jobs.error();
  std::string text;
  for (const Json& job : jobs->at("items")) {
    auto replicas = context.api.list("/jobs/" + text_at(job, "id") + "/replicas");
    if (!replicas) return replicas.error();
    for (const Json& replica : replicas->at("items")) {
      const std::string state = text_at(replica, "state");
      if (text_at(replica, "agent") != agent_id || state == "released" || state == "failed")
        continue;
      const std::string load = load_text(replica);
      text += line(text.empty() ? "works on" : "",
                   text_at(job, "name") + ", stage " + text_at(replica, "stage") + ": " +
                       text_at(replica, "id") + " " + state + (load.empty() ? "" : ", " + load));
    }
  }
  return text;
}

constexpr std::size_t kEventsRead = 50;

// Why an agent holds nothing, from the newest events.
Result<std::string> why_unused(const Context& context, const Json& agent) {
  if (text_at(agent, "state") == "gone") return std::string();
  auto events = context.api.list("/events?order=desc&agent=" + text_at(agent, "id"), kEventsRead);
  if (!events) return events.error();
  for (const Json& event : events->at("items")) {
    if (text_at(event, "kind") == "device_too_small") {
      return line("not used", text_at(event, "message"));
    }
  }
  return std::string();
}

// What its devices did in the last day; nothing where the coordinator is older.
Json last_day(const Context& context, const Json& agent) {
  auto found = context.api.get(path_of(text_at(agent, "id")) + "/devices/history?hours=24");
  return found ? found->value("items", Json::array()) : Json::array();
}

void show(const Json& agent, const std::string& work, const Json& history) {
  std::string text = line("name", text_at(agent, "name") + "  (" + text_at(agent, "id") + ")");
  text += line("state", state_of(agent));
  text += line("health", health_of(agent));
  text += line("violations", violations_text(agent));
  text += line("availability", fixed(100 * number_at(agent, "availability", 0), 1) + " %");
  text += line("host", text_at(agent, "host"));
  if (const std::string relay = text_at(agent, "relay", ""); !relay.empty())
    text += line("relays at", relay);
  text += line("version", text_at(agent, "version"));
  for (const Json& device : agent.at("devices")) {
    text += line("device " + text_at(device, "index"), device_text(agent, device));
    if (const std::string day = day_text(agent, device, history); !day.empty())
      text += line("  last day", day);
  }
  for (const Json& cordon : agent.value("cordoned_devices", Json::array())) {
    if (number_at(cordon, "device", 0) >= 0) continue;
    text += line("not there", text_at(cordon, "uuid") + "; " + cordon_text(agent, cordon));
  }
  if (const std::string programs = programs_of(agent); !programs.empty())
    text += line("programs", programs);
  text += work;
  text += line("last seen", human_age(last_seen(agent), static_cast<double>(::time(nullptr))));
  print(text);
}

// The agent when it has no replica any more, or is gone.
Result<Json> wait_until_drained(const Context& context, Json agent, double timeout_s) {
  catch_interrupts();
  const std::string name = text_at(agent, "name");
  const double started = now_s();
  while (!is_drained(agent)) {
    if (timeout_s > 0 && now_s() - started > timeout_s) {
      return Error{Code::kDeadlineExceeded,
                   "agent " + name + " is not drained after " + human_duration(timeout_s),
                   "--timeout", "it continues; `shoal agent get " + name + "` shows what it holds"};
    }
    if (!pause_for(kAskEveryS)) {
      return Error{Code::kCancelled, "stopped waiting; the drain continues", "", ""};
    }
    auto asked = context.api.get(path_of(text_at(agent, "id")));
    if (!asked) return asked.error();
    agent = std::move(*asked);
    if (at_path(agent, "drained") == nullptr) {
      return Error{Code::kIncompatible, "this coordinator does not say when a drain is done", "",
                   "look with `shoal events --agent " + name + "`"};
    }
    if (text_at(agent, "state") == "gone") return agent;
    if (text_at(agent, "state") != "draining") {
      return Error{Code::kConflict, "agent " + name + " was put back into service", "", ""};
    }
  }
  return agent;
}

}  // namespace

Result<int> agent_get(const Context& context, const std::string& agent) {
  auto found = context.api.get(path_of(agent));
  if (!found) return found.error();
  if (context.json) return print(found->dump(2) + "\n"), kExitOk;
  auto work = work_of(context, text_at(*found, "id"));
  if (work && work->empty()) work = why_unused(context, *found);
  if (!work) return work.error();
  show(*found, *work, last_day(context, *found));
  return kExitOk;
}

Result<int> agent_rm(const Context& context, const std::string& agent) {
  auto removed = context.api.remove(path_of(agent));
  if (!removed) return removed.error();
  if (context.json) return print(removed->dump(2) + "\n"), kExitOk;
  say("Agent " + text_at(*removed, "name") +
      " is forgotten. If its host comes back, it is a new agent.");
  return kExitOk;
}

Result<int> agent_command(const Context& context, const std::string& agent, const std::string& verb,
                          const WaitOptions& options) {
  auto changed = context.api.post(path_of(agent) + "/" + verb, "", "application/json");
  if (!changed) return changed.error();
  if (options.wait) {
    changed = wait_until_drained(context, *changed, options.timeout_s);
    if (!changed) return changed.error();
  }
  if (context.json) return print(changed->dump(2) + "\n"), kExitOk;
  say(after_command(*changed, verb));
  return kExitOk;
}

}  // namespace shoal::cli
