// `shoal-sim swarm`: one configuration of the pipeline simulator over several seeds.
#pragma once

namespace shoal::sim::swarm {

// argv[0] is the word "swarm". The result is the exit code.
int run_command(int argc, char** argv);

}  // namespace shoal::sim::swarm
