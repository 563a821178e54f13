// shoal-timed-trainer: takes the place of shoal-trainer (`shoal-agent --trainer`) where rounds and
// lines are to be tried with more devices than there are. SHOAL_TIMED_STEP_MS is the time of one
// inner step of the whole model.
#include "agent_channel/environment.h"
#include "bench/timed/timed_compute.h"
#include "replica/runtime/serve.h"

int main() {
  using namespace shoal;
  constexpr const char* kProgram = "shoal-timed-trainer";
  const auto step = agent_channel::environment_number("SHOAL_TIMED_STEP_MS", 100, 1, 600'000);
  if (!step) return replica::complain(kProgram, step.error());
  const auto index = agent_channel::environment_number("SHOAL_TRAINER_DEVICE", 0, 0, 4095);
  if (!index) return replica::complain(kProgram, index.error());
  bench::TimedHost host({.step = milliseconds(*step)});
  const auto measure = [&](TrainerReady& ready) {
    ready.device.index = *index;
    ready.device.name = "a clock";
    ready.device.memory = mebibytes(std::int64_t{1} << 20);
    ready.device.gflops = 1e4 / *step;
    ready.libraries = "none: it waits";
    return replica::MaybeFailure();
  };
  return replica::serve({kProgram, host, measure});
}
