// shoal-reducer: started by an agent with the role reducer, once per job and stage that it serves.
// It needs no device and no model. Exit codes: 0 told to end, 1 wrong environment.
#include <csignal>
#include <iostream>

#include "agent_channel/control.h"
#include "agent_channel/environment.h"
#include "agent_channel/replica_identity.h"
#include "reducer/reducing.h"
#include "wire/cross_memory.h"

namespace shoal::reducer {
namespace {

constexpr std::size_t kCommandsMax = 256;
constexpr int kSlotsMax = 4095;

int complain(const Error& error) {
  std::cerr << "shoal-reducer: " << to_string(error) << std::endl;
  return 1;
}

TrainerReady ready_as(int slot, const outer_opt::PeerNode& node) {
  TrainerReady ready{.slot = slot, .device = {}, .peer_address = node.address(), .libraries = {}};
  ready.device.kind = DeviceKind::kReducer;
  ready.device.name = "reducer";
  return ready;
}

int serve() {
  // Ctrl-C on a terminal reaches every process of it; the agent decides when this one ends.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const auto line = agent_channel::control_options("shoal-reducer");
  if (!line) return complain(line.error());
  const auto slot = agent_channel::environment_number("SHOAL_TRAINER_SLOT", 0, 0, kSlotsMax);
  if (!slot) return complain(slot.error());
  const auto options = agent_channel::peer_options();
  if (!options) return complain(options.error());
  wire::let_siblings_read_memory();
  auto node = outer_opt::PeerNode::start(*options);
  if (!node) return complain(node.error());
  EventQueue queue(kCommandsMax);
  agent_channel::ReplicaIdentity identity(
      *line, [&](auto certificate) { (*node)->set_identity(std::move(certificate)); },
      [](const std::string& complaint) {
        std::cerr << "shoal-reducer: " << complaint << std::endl;
      });
  auto control = agent_channel::Control::dial(
      *line, {.command =
                  [&](ToTrainer command) {
                    identity.heard(command);
                    if (const auto* told = std::get_if<Relays>(&command))
                      (*node)->set_relays(told->addresses);
                    return queue.push_command(std::move(command));
                  },
              .ended = [&] { queue.push(agent_channel::StreamEnded{}); },
              .closing = [&] { queue.close(); },
              .revoked =
                  [&](const std::vector<AgentId>& agents) {
                    identity.revoke(agents);
                    (*node)->revoke(agents);
                  },
              .refusals = [&] { return (*node)->refusals(); }});
  if (!control) return complain(control.error());
  const TrainerReady ready = ready_as(*slot, **node);
  (*control)->start(ready);
  Reducing reducing(
      **node, queue, [&](const FromTrainer& message) { (*control)->say(message); }, ready);
  reducing.run();
  return 0;
}

}  // namespace
}  // namespace shoal::reducer

int main() { return shoal::reducer::serve(); }
