// Programs started by tests: their output, their exit code, their children. Every wait has a limit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace shoal::integration {

struct Finished {
  int exit_code = -1;  // 128 + signal when killed; 124 when it ran past the limit and was killed
  std::string out, err;
};

// Runs to the end; `input` goes to stdin.
Finished run(const std::vector<std::string>& command, double limit_s,
             const std::string& input = {});

std::string binary(const std::string& name);  // build/bin/NAME
bool has_binary(const std::string& name);
bool has_program(const std::string& name);  // in PATH

// Processes whose parent is `parent` and whose executable is called `name`.
std::vector<pid_t> children_of(pid_t parent, const std::string& name);

// Asks until true or the limit is over.
bool eventually(double limit_s, const std::function<bool()>& holds);

}  // namespace shoal::integration
