#include "cli/commands/agent_text.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "base/number_text.h"
#include "cli/format.h"

namespace shoal::cli {
namespace {

constexpr std::size_t kGoneNamed = 4;

bool is_gone(const Json& agent) { return text_at(agent, "state") == "gone"; }

std::string percent(double share) { return std::to_string(std::lround(100 * share)) + " %"; }

// The one with the UUID of the device; null: there is none.
const Json* of_device(const Json& list, const Json& device) {
  const std::string uuid = text_at(device, "uuid", "");
  for (const Json& one : list) {
    if (!uuid.empty() && text_at(one, "uuid", "") == uuid) return &one;
  }
  return nullptr;
}

// ", XID 79 (2), XID 94 (1)", by what the agent has counted.
std::string xids_text(const Json& sample) {
  std::string text;
  const Json* xids = at_path(sample, "errors/xids");
  if (xids == nullptr || !xids->is_array()) return text;
  for (const Json& xid : *xids) {
    text += ", XID " + text_at(xid, "xid") + " (" + text_at(xid, "count") + ")";
  }
  return text;
}

// A point lasts until the next one, but ten minutes at most; the last one a minute.
double seconds_of(const Json& points, std::size_t index) {
  constexpr double kMinute = 60, kLongest = 600;
  if (index + 1 >= points.size()) return kMinute;
  const auto at = parse_rfc3339(text_at(points[index], "at"));
  const auto next = parse_rfc3339(text_at(points[index + 1], "at"));
  return at && next ? std::clamp(*next - *at, kMinute, kLongest) : kMinute;
}

}  // namespace

bool is_drained(const Json& agent) { return text_at(agent, "drained", "false") == "true"; }

std::string state_of(const Json& agent) {
  const std::string state = text_at(agent, "state");
  if (state == "gone") return "gone: " + text_at(agent, "gone_reason", "left");
  if (is_drained(agent)) return "drained";
  const bool cordoned = text_at(agent, "cordoned", "false") == "true" && state != "draining";
  const std::size_t failing = agent.value("device_failures", Json::array()).size();
  const std::size_t devices = agent.value("cordoned_devices", Json::array()).size();
  return state + (cordoned ? ", cordoned" : "") + (devices > 0 ? ", device cordoned" : "") +
         (failing > 0 ? ", trainer fails" : "");
}

std::string health_of(const Json& agent) {
  const std::string reason = text_at(agent, "health_reason", "");
  return text_at(agent, "health") + (reason.empty() ? "" : ": " + reason);
}

std::string unwell_text(const Json& agents) {
  std::string text;
  for (const Json& agent : agents) {
    if (is_gone(agent) || text_at(agent, "health_reason", "").empty()) continue;
    text += (text.empty() ? "" : "\n") + text_at(agent, "name") + " is " + health_of(agent) + ".";
  }
  return text;
}

std::string cordon_text(const Json& agent, const Json& cordon) {
  std::string reasons;
  for (const Json& reason : cordon.at("reasons")) {
    reasons += (reasons.empty() ? "" : "; ") + text_at(reason, "");
  }
  const std::string code = text_at(cordon, "code", "");
  if (text_at(cordon, "fault", "none") != "none") {
    return "cordoned since " + text_at(cordon, "at") + ", because its driver reported a fault (" +
           reasons + "): " + text_at(cordon, "ends");
  }
  return "cordoned" + (code.empty() ? "" : " for the program " + code) + " since " +
         text_at(cordon, "at") + ", because replicas of " + text_at(cordon, "job") +
         " failed there (" + reasons + "): `shoal agent uncordon " + text_at(agent, "name") +
         "` ends it";
}

std::string sample_text(const Json& agent, const Json& device) {
  constexpr double kOfNowS = 15;
  const Json samples = agent.value("device_samples", Json::array());
  const Json* sample = of_device(samples, device);
  if (sample == nullptr) return "";
  std::string text;
  if (const Json* use = at_path(*sample, "use"); use != nullptr && use->is_object()) {
    const double others = number_at(*use, "busy_elsewhere", 0);
    text += "; " + percent(number_at(*use, "busy", 0)) + " busy" +
            (others > 0 ? " (" + percent(others) + " by others), " : ", ") +
            size_text(number_at(*use, "used_here_bytes", 0)) + " in use here and " +
            size_text(number_at(*use, "used_elsewhere_bytes", 0)) + " by others";
  }
  const double celsius = number_at(*sample, "climate/celsius", 0);
  if (celsius > 0) text += ", " + std::to_string(std::lround(celsius)) + " °C";
  const double age_s = number_at(*sample, "age_s", 0);
  if (!text.empty() && age_s > kOfNowS) text += ", " + human_duration(age_s) + " ago";
  const std::string error = text_at(*sample, "error", "");
  return error.empty() ? text : text + "; " + text_at(*sample, "answer", "") + ": " + error;
}

std::string day_text(const Json& agent, const Json& device, const Json& history) {
  const Json* known = of_device(history, device);
  if (known == nullptr || known->at("points").empty()) return "";
  const Json& points = known->at("points");
  double time = 0, busy = 0, throttled = 0, celsius = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double seconds = seconds_of(points, i);
    time += seconds;
    busy += seconds * number_at(points[i], "busy", 0);
    throttled += seconds * number_at(points[i], "throttled", 0);
    celsius = std::max(celsius, number_at(points[i], "celsius", 0));
  }
  std::string text = percent(busy / time) + " busy";
  if (celsius > 0) text += ", at most " + std::to_string(std::lround(celsius)) + " °C";
  text += ", throttled " + percent(throttled / time) + " of the time";
  const Json samples = agent.value("device_samples", Json::array());
  const Json* sample = of_device(samples, device);
  return sample == nullptr ? text : text + xids_text(*sample);
}

std::string last_seen(const Json& agent) {
  return text_at(agent, "last_seen_at", is_gone(agent) ? text_at(agent, "updated_at") : "-");
}

std::string programs_of(const Json& agent) {
  std::vector<std::string> kinds;
  if (text_at(agent, "runs_programs", "false") == "true") kinds.emplace_back("of --trainer-root");
  if (const Json* owners = at_path(agent, "code_from")) {
    for (const Json& owner : *owners) {
      const std::string name = owner.get<std::string>();
      kinds.push_back(name == "*" ? "code of anybody" : "code of " + name);
    }
  }
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "" : ", ") + kind;
  const std::string limits = text_at(agent, "program_limits", "none");
  if (text.empty()) return text;
  if (limits == "cgroup") return text + "; bounded by cgroups";
  return limits == "watched" ? text + "; bounded by the agent, which watches them" : text;
}

std::string after_command(const Json& agent, const std::string& verb) {
  const std::string name = "Agent " + text_at(agent, "name");
  if (is_gone(agent)) return name + " is gone.";
  if (verb == "uncordon") return name + " is back at work; it is " + state_of(agent) + ".";
  if (verb == "cordon") return name + " gets no new replicas; it is " + state_of(agent) + ".";
  if (is_drained(agent)) return name + " is drained: it has no replica any more.";
  return name + " is draining: its replicas leave when their rounds commit.";
}

std::string gone_text(const Json& agents, double now_unix_s) {
  std::set<std::string> here;
  for (const Json& agent : agents) {
    if (!is_gone(agent)) here.insert(text_at(agent, "name"));
  }
  std::vector<std::pair<std::string, std::string>> gone;  // since, what
  for (const Json& agent : agents) {
    if (!is_gone(agent) || here.count(text_at(agent, "name")) > 0) continue;
    const std::string since = text_at(agent, "updated_at");
    gone.emplace_back(since, text_at(agent, "name") + ", " + text_at(agent, "gone_reason", "left") +
                                 " " + human_age(since, now_unix_s));
  }
  if (gone.empty()) return "";
  std::sort(gone.rbegin(), gone.rend());  // RFC 3339 in UTC: the newest first
  std::string text = std::to_string(gone.size()) + " gone: ";
  for (std::size_t i = 0; i < std::min(gone.size(), kGoneNamed); ++i) {
    text += (i == 0 ? "" : "; ") + gone[i].second;
  }
  return text + (gone.size() > kGoneNamed ? "; …" : "") + ". `shoal agent ls --gone` shows all.";
}

}  // namespace shoal::cli
