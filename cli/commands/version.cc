// shoal version: of this binary and, where one answers, of the coordinator; a cluster that was
// brought to another version by halves shows here.
#include "cli/commands/commands.h"
#include "cli/terminal.h"
#include "cli/versions.h"

namespace shoal::cli {

Result<int> version(const Context& context, const std::string& own) {
  const auto theirs = context.api.get("/version");
  if (context.json) {
    const Json both = {{"version", own}, {"coordinator", theirs ? *theirs : Json(nullptr)}};
    return print(both.dump(2) + "\n"), kExitOk;
  }
  print("shoal        " + own + "\n");
  if (theirs) {
    print("coordinator  " + text_at(*theirs, "version") + ", " + context.api.origin() + "\n");
    const std::string advice = version_advice(own, text_at(*theirs, "version"));
    if (!advice.empty()) say(advice);
  } else {
    say("coordinator  none: " + theirs.error().message);
  }
  return kExitOk;
}

}  // namespace shoal::cli
