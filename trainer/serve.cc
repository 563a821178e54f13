// See serve.h.
#include "trainer/serve.h"

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "attached/control.h"
#include "attached/environment.h"
#include "replica/runtime/worker.h"
#include "trainer/compute/torch_compute.h"
#include "trainer/model/cell_member.h"
#include "trainer/plain/blas.h"
#include "wire/lent_memory.h"
#if SHOAL_HAVE_CUDA
#include "outer_opt/cuda/cuda_accelerator.h"
#endif
#if SHOAL_HAVE_NCCL
#include "swarm/cuda/nccl_library.h"
#endif

namespace shoal::trainer {
namespace {

using attached::environment;
using attached::environment_number;
using replica::DonorShelf;
using replica::EventQueue;
using replica::MakeRuntime;
using replica::Worker;
using replica::WorkerEnd;

constexpr std::size_t kCommandsMax = 256;
constexpr int kExitBadEnvironment = 1, kExitDeviceLost = 3;
constexpr int kThreadsMax = 1024, kCellMax = 64;
constexpr double kSpeedMin = 0.01;

Result<double> speed_from_environment() {
  const std::string text = environment("SHOAL_TRAINER_SPEED", "1");
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = error == std::errc() && end == text.data() + text.size();
  if (number && value >= kSpeedMin && value <= 1) return value;
  return Error{Code::kValidation, "must be a number from 0.01 to 1, got \"" + text + "\"",
               "SHOAL_TRAINER_SPEED", ""};
}

Result<DeviceChoice> device_from_environment() {
  const std::string kind = environment("SHOAL_TRAINER_KIND", "cpu");
  if (kind != "cpu" && kind != "cuda") {
    return Error{Code::kValidation, "must be cpu or cuda, got \"" + kind + "\"",
                 "SHOAL_TRAINER_KIND", ""};
  }
  const auto index = environment_number("SHOAL_TRAINER_DEVICE", 0, 0, 4095);
  if (!index) return index.error();
  const auto threads = environment_number("SHOAL_TRAINER_THREADS", 1, 1, kThreadsMax);
  if (!threads) return threads.error();
  const auto speed = speed_from_environment();
  if (!speed) return speed.error();
  return DeviceChoice{kind == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu, *index, *threads,
                      *speed};
}

int complain(const Error& error) {
  std::cerr << "shoal-trainer: " << to_string(error) << std::endl;
  return kExitBadEnvironment;
}

void warn_about_slow_blas(const DeviceChoice& device) {
  if (device.kind != DeviceKind::kCpu || !blas().reference) return;
  std::cerr << "shoal-trainer: WARNING: libtorch computes with the " << blas().name
            << ", about ten times slower than it could: install libopenblas0-pthread" << std::endl;
}

MakeRuntime runtimes_of(swarm::PipelineService& service, EventQueue& queue) {
  return [&](const swarm::StageRuntimeOptions& options, swarm::StageCompute& compute,
             swarm::StageListener& listener, RoundNumber held, std::int64_t step) {
    return swarm::StageRuntime::create(
        options, service, compute, listener, [&queue] { queue.push(replica::Woken{}); }, held,
        step);
  };
}

// Null: the outer step is computed on the host.
Result<std::unique_ptr<outer_opt::Accelerator>> accelerator_of(const DeviceChoice& device) {
#if SHOAL_HAVE_CUDA
  if (device.kind == DeviceKind::kCuda) return outer_opt::make_cuda_accelerator(device.index);
#endif
  return std::unique_ptr<outer_opt::Accelerator>();
}

// What the devices of a cell add their gradients with; null: its leader adds them.
std::unique_ptr<swarm::DeviceGroup> device_group(const DeviceChoice& device) {
#if SHOAL_HAVE_NCCL
  if (device.kind == DeviceKind::kCuda) {
    auto library = swarm::make_nccl_library(device.index);
    if (library) return std::make_unique<swarm::DeviceGroup>(std::move(*library));
    std::cerr << "shoal-trainer: WARNING: " << to_string(library.error()) << std::endl;
  }
#endif
  return nullptr;
}

// The other processes of a cell compute on the devices after the leader's. One that does not start
// is left out.
std::unique_ptr<CellLeader> make_cell(const DeviceChoice& device, int size, StageModel& model) {
  std::vector<CellMember> members;
  for (int rank = 1; rank < size; ++rank) {
    const int index = device.kind == DeviceKind::kCuda ? device.index + rank : device.index;
    auto member = start_cell_member(std::filesystem::read_symlink("/proc/self/exe").string(),
                                    {"SHOAL_TRAINER_DEVICE=" + std::to_string(index)});
    if (member) {
      members.push_back(std::move(*member));
    } else {
      std::cerr << "shoal-trainer: WARNING: " << to_string(member.error()) << std::endl;
    }
  }
  return std::make_unique<CellLeader>(model, std::move(members), device_group(device));
}

MakeCell cell_maker(const DeviceChoice& device, int size) {
  if (size == 1) return {};
  return [device, size](StageModel& model) { return make_cell(device, size, model); };
}

// A cell is as fast as its devices are together.
Device measure_cell(const DeviceChoice& device, int size) {
  Device measured = measure_device(device);
  measured.gflops *= size;
  if (size > 1) measured.name = std::to_string(size) + " x " + measured.name;
  return measured;
}

std::string describe_cell(const DeviceChoice& device, int size) {
  const auto group = device_group(device);
  return ", a cell of " + std::to_string(size) + " over " + (group ? group->name() : "sockets");
}

// What this process was started for.
struct Seat {
  int slot = 0, cell = 1;  // cell: processes of one replica
  DeviceChoice device;
  outer_opt::Accelerator* accelerator = nullptr;
};

int run_attached(const Seat& seat, outer_opt::PeerNode& node, swarm::PipelineService& pipeline,
                 const attached::ControlOptions& line) {
  EventQueue queue(kCommandsMax);
  auto control = attached::Control::dial(
      line, {.command = [&](ToTrainer command) { return queue.push_command(std::move(command)); },
             .ended = [&] { queue.push(replica::StreamEnded{}); },
             .closing = [&] { queue.close(); }});
  if (!control) return complain(control.error());
  DonorShelf shelf([&queue] { queue.push(replica::AdamWanted{}); });
  node.set_donor([&shelf](ReplicaId replica, const RoundKey& key, const auto& send) {
    return shelf.serve(replica, key, send);
  });
  node.set_momentum_donor(
      [&shelf](ReplicaId replica, const RoundKey& key, const outer_opt::ValueRange& range,
               const auto& send) { return shelf.serve_momentum(replica, key, range, send); });
  TrainerReady ready{
      .slot = seat.slot, .device = {}, .peer_address = node.address(), .libraries = {}};
  if (const auto failure = guarded([&] { ready.device = measure_cell(seat.device, seat.cell); })) {
    return complain(
        {Code::kUnavailable, failure->detail, "", "look at the device with nvidia-smi"});
  }
  ready.libraries = describe_libraries(seat.device);
  if (seat.accelerator != nullptr) ready.libraries += ", outer step on the GPU";
  if (seat.cell > 1) ready.libraries += describe_cell(seat.device, seat.cell);
  (*control)->start(ready);
  TorchHost compute(seat.device, seat.accelerator, cell_maker(seat.device, seat.cell));
  Worker worker({compute, queue, node, shelf, runtimes_of(pipeline, queue),
                 [&](const FromTrainer& message) { (*control)->say(message); }, ready});
  const WorkerEnd end = worker.run();
  node.set_donor({});
  node.set_momentum_donor({});
  return end == WorkerEnd::kDeviceLost ? kExitDeviceLost : 0;
}

}  // namespace

int serve() {
  // Ctrl-C on a terminal reaches every process of it; the agent decides when its trainers end.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  const auto line = attached::control_options("shoal-trainer");
  if (!line) return complain(line.error());
  const auto slot = environment_number("SHOAL_TRAINER_SLOT", 0, 0, 4095);
  if (!slot) return complain(slot.error());
  const auto device = device_from_environment();
  if (!device) return complain(device.error());
  const auto cell = environment_number("SHOAL_TRAINER_CELL", 1, 1, kCellMax);
  if (!cell) return complain(cell.error());
  if (const Status prepared = prepare_device(*device); !prepared) return complain(prepared.error());
  warn_about_slow_blas(*device);
  auto options = attached::peer_options();
  if (!options) return complain(options.error());
  const auto accelerator = accelerator_of(*device);  // outlives the sessions of the node
  if (!accelerator) return complain(accelerator.error());
  const auto pipeline = swarm::PipelineService::create(options->line);
  options->services = {pipeline->grpc_service()};
  wire::let_siblings_read_memory();
  auto node = outer_opt::PeerNode::start(*options);
  if (!node) return complain(node.error());
  return run_attached({*slot, *cell, *device, accelerator->get()}, **node, *pipeline, *line);
}

int serve_cell_member() {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  CellSocket leader(kCellMemberSocket);
  const auto device = device_from_environment();
  if (!device) return complain(device.error());
  if (const Status prepared = prepare_device(*device); !prepared) return complain(prepared.error());
  const auto group = device_group(*device);
  const Status end = run_cell_member(leader, *device, group.get());
  return end.error().code == Code::kUnavailable ? 0 : complain(end.error());
}

}  // namespace shoal::trainer
