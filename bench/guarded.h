// The main() of a study: what goes wrong is one sentence on stderr.
#pragma once

#include <cstdio>
#include <exception>

namespace shoal::bench {

inline int guarded(int (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "error: %s\n", problem.what());
    return 1;
  }
}

}  // namespace shoal::bench
