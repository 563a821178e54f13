// See serve.h.
#include "replica/runtime/serve.h"

#include <csignal>
#include <iostream>

#include "agent_channel/control.h"
#include "agent_channel/environment.h"
#include "agent_channel/replica_identity.h"
#include "replica/runtime/worker.h"
#include "wire/cross_memory.h"

namespace shoal::replica {
namespace {

constexpr std::size_t kCommandsMax = 256;
constexpr int kSlotMax = 4095;

MakeRuntime runtimes_of(swarm::PipelineService& service, EventQueue& queue) {
  return [&](const swarm::StageRuntimeOptions& options, swarm::StageCompute& compute,
             swarm::StageListener& listener, RoundNumber held, std::int64_t step) {
    return swarm::StageRuntime::create(
        options, service, compute, listener, [&queue] { queue.push(Woken{}); }, held, step);
  };
}

void give_to_joiners(outer_opt::PeerNode& node, StateServer& state_server) {
  node.set_state_handler(
      [&state_server](const outer_opt::StateAsk& ask) { return state_server.answer(ask); });
  node.set_momentum_handler([&state_server](ReplicaId replica, const RoundKey& key,
                                            const outer_opt::ValueRange& range, const auto& send) {
    return state_server.serve_momentum(replica, key, range, send);
  });
}

struct Place {  // of this process at its agent
  int slot = 0;
  agent_channel::ControlOptions line;
};

Result<WorkerEnd> run_attached(const TrainerProgram& program, const Place& place,
                               outer_opt::PeerNode& node, swarm::PipelineService& pipeline) {
  EventQueue queue(kCommandsMax);
  agent_channel::ReplicaIdentity identity(
      place.line, [&](auto certificate) { node.set_identity(std::move(certificate)); },
      [&](const std::string& complaint) {
        std::cerr << program.name << ": " << complaint << std::endl;
      });
  auto control = agent_channel::Control::dial(
      place.line, {.command =
                       [&](ToTrainer command) {
                         identity.heard(command);
                         if (const auto* told = std::get_if<Relays>(&command))
                           node.set_relays(told->addresses);
                         return queue.push_command(std::move(command));
                       },
                   .ended = [&] { queue.push(StreamEnded{}); },
                   .closing = [&] { queue.close(); },
                   .revoked =
                       [&](const std::vector<AgentId>& agents) {
                         identity.revoke(agents);
                         node.revoke(agents);
                       },
                   .refusals = [&] { return node.refusals(); }});
  if (!control) return control.error();
  StateServer state_server([&queue] { queue.push(MomentsWanted{}); });
  give_to_joiners(node, state_server);
  TrainerReady ready{.slot = place.slot,
                     .device = {},
                     .peer_address = node.address(),
                     .libraries = {},
                     .hears_relays = true};
  if (const auto failure = program.measure(ready)) {
    return Error{Code::kUnavailable, failure->detail, "", "look at the device with nvidia-smi"};
  }
  (*control)->start(ready);
  Worker worker({program.host, queue, node, state_server, runtimes_of(pipeline, queue),
                 [&](const FromTrainer& message) { (*control)->say(message); }, ready});
  const std::stop_callback stopped(program.stop, [&queue] { queue.push(StreamEnded{}); });
  const WorkerEnd end = worker.run();
  node.set_state_handler({});
  node.set_momentum_handler({});
  return end;
}

}  // namespace

int complain(const std::string& program, const Error& error) {
  std::cerr << program << ": " << to_string(error) << std::endl;
  return kExitBadEnvironment;
}

Result<WorkerEnd> attend(const TrainerProgram& program) {
  auto line = agent_channel::control_options(program.name);
  if (!line) return line.error();
  const auto slot = agent_channel::environment_number("SHOAL_TRAINER_SLOT", 0, 0, kSlotMax);
  if (!slot) return slot.error();
  auto options = agent_channel::peer_options();
  if (!options) return options.error();
  wire::let_siblings_read_memory();
  auto node = outer_opt::PeerNode::start(*options);
  if (!node) return node.error();
  const auto pipeline = swarm::PipelineService::create(**node);
  return run_attached(program, {*slot, std::move(*line)}, **node, *pipeline);
}

int serve(const TrainerProgram& program) {
  // Ctrl-C on a terminal reaches every process of it; the agent decides when its trainers end.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const auto end = attend(program);
  if (!end) return complain(program.name, end.error());
  return *end == WorkerEnd::kDeviceLost ? kExitDeviceLost : 0;
}

}  // namespace shoal::replica
