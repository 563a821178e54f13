// Gives this process the environment of base/thread_environment.h when whoever started it did not,
// as when a person runs `shoal-trainer bench`. Libraries have read theirs before main() begins, so
// the process becomes itself again, once.
#pragma once

namespace shoal::trainer {

// Sets what is missing; true: something was.
bool complete_thread_environment();

// To be called first in main(), while there is one thread. Returns when nothing was missing, or
// with the old settings where the program cannot be started again: it then computes as well, only
// slower with several threads.
void require_thread_environment(char** argv);

}  // namespace shoal::trainer
