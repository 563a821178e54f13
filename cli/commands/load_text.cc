#include "cli/commands/load_text.h"

#include "base/number_text.h"
#include "cli/format.h"

namespace shoal::cli {

std::string load_text(const Json& replica) {
  const double done = number_at(replica, "load/done_bytes", -1);
  if (done < 0 || text_at(replica, "state") != "loading") return "";
  const double total = number_at(replica, "load/total_bytes", 0);
  const double left = number_at(replica, "load/left_s", -1);
  const double share = number_at(replica, "load/share", 0);
  return size_text(done) + (total > 0 ? " of " + size_text(total) : "") +
         (left >= 0 ? ", " + human_duration(left) + " left" : "") +
         (share > 0 ? ", r = " + fixed(share, 2) : "");
}

std::string loading_lines(const Json& replicas, const Json& agents) {
  std::string lines;
  for (const Json& replica : replicas) {
    const std::string text = load_text(replica);
    if (text.empty()) continue;
    std::string name = text_at(replica, "agent");
    for (const Json& agent : agents) {
      if (text_at(agent, "id") == name) name = text_at(agent, "name", name);
    }
    lines += text_at(replica, "id") + " of " + name + " loads: " + text + "\n";
  }
  return lines;
}

}  // namespace shoal::cli
