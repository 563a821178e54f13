// See serve.h.
#include "trainer/serve.h"

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "agent_channel/data_client.h"
#include "agent_channel/environment.h"
#include "outer_opt/cuda/accelerator.h"
#include "replica/runtime/serve.h"
#include "trainer/compute/torch_compute.h"
#include "trainer/model/group_member.h"
#include "trainer/plain/blas.h"
#if SHOAL_HAVE_CUDA
#include "outer_opt/cuda/cuda_accelerator.h"
#endif
#if SHOAL_HAVE_NCCL
#include "swarm/cuda/nccl_library.h"
#endif

namespace shoal::trainer {
namespace {

using agent_channel::environment;
using agent_channel::environment_number;

constexpr const char* kProgram = "shoal-trainer";
constexpr int kThreadsMax = 1024, kReplicaGroupMax = 64;
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
  const auto ordinal = environment_number("SHOAL_TRAINER_ORDINAL", 0, 0, 4095);
  if (!ordinal) return ordinal.error();
  const auto threads = environment_number("SHOAL_TRAINER_THREADS", 1, 1, kThreadsMax);
  if (!threads) return threads.error();
  const auto speed = speed_from_environment();
  if (!speed) return speed.error();
  return DeviceChoice{kind == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu, *index, *threads,
                      *speed, *ordinal};
}

// Beneath which the agent lets jobs read.
Result<data::DataRoots> roots_from_environment() {
  return data::DataRoots::from_text(environment("SHOAL_DATA_ROOTS", ""), "SHOAL_DATA_ROOTS");
}

int complain(const Error& error) { return replica::complain(kProgram, error); }

void warn_about_slow_blas(const DeviceChoice& device) {
  if (device.kind != DeviceKind::kCpu || !blas().reference) return;
  std::cerr << "shoal-trainer: WARNING: libtorch computes with the " << blas().name
            << ", about ten times slower than it could: install libopenblas0-pthread" << std::endl;
}

// Null: the outer step is computed on the host.
Result<std::unique_ptr<outer_opt::Accelerator>> accelerator_of(const DeviceChoice& device) {
#if SHOAL_HAVE_CUDA
  if (device.kind == DeviceKind::kCuda) return outer_opt::make_cuda_accelerator(device.ordinal);
#endif
  return std::unique_ptr<outer_opt::Accelerator>();
}

// What the devices of a replica group add their gradients with; null: its leader adds them.
std::unique_ptr<swarm::DeviceGroup> device_group(const DeviceChoice& device) {
#if SHOAL_HAVE_NCCL
  if (device.kind == DeviceKind::kCuda) {
    auto library = swarm::make_nccl_library(device.ordinal);
    if (library) return std::make_unique<swarm::DeviceGroup>(std::move(*library));
    std::cerr << "shoal-trainer: WARNING: " << to_string(library.error()) << std::endl;
  }
#endif
  return nullptr;
}

// The other processes of a replica group compute on the devices after the leader's. One that does
// not start is left out.
std::unique_ptr<GroupLeader> make_replica_group(const DeviceChoice& device, int size,
                                                StageModel& model) {
  std::vector<GroupMember> members;
  for (int rank = 1; rank < size; ++rank) {
    auto member = start_group_member(std::filesystem::read_symlink("/proc/self/exe").string(),
                                     {"SHOAL_TRAINER_ORDINAL=" + std::to_string(rank)});
    if (member) {
      members.push_back(std::move(*member));
    } else {
      std::cerr << "shoal-trainer: WARNING: " << to_string(member.error()) << std::endl;
    }
  }
  return std::make_unique<GroupLeader>(model, std::move(members), device_group(device));
}

MakeReplicaGroup replica_group_maker(const DeviceChoice& device, int size) {
  if (size == 1) return {};
  return [device, size](StageModel& model) { return make_replica_group(device, size, model); };
}

// A replica group is as fast as its devices are together.
Device measure_replica_group(const DeviceChoice& device, int size) {
  Device measured = measure_device(device);
  measured.gflops *= size;
  if (size > 1) measured.name = std::to_string(size) + " x " + measured.name;
  return measured;
}

std::string describe_replica_group(const DeviceChoice& device, int size) {
  const auto group = device_group(device);
  return ", a replica group of " + std::to_string(size) + " over " +
         (group ? group->name() : "sockets");
}

// What is said to the agent of the device, or of the replica group of them.
void measure(const DeviceChoice& device, int replica_group, bool accelerated, TrainerReady& ready) {
  ready.device = measure_replica_group(device, replica_group);
  ready.libraries = describe_libraries(device);
  if (accelerated) ready.libraries += ", outer step on the GPU";
  if (replica_group > 1) ready.libraries += describe_replica_group(device, replica_group);
}

}  // namespace

int serve() {
  const auto device = device_from_environment();
  if (!device) return complain(device.error());
  const auto replica_group =
      environment_number("SHOAL_TRAINER_REPLICA_GROUP", 1, 1, kReplicaGroupMax);
  if (!replica_group) return complain(replica_group.error());
  const auto roots = roots_from_environment();
  if (!roots) return complain(roots.error());
  if (const Status prepared = prepare_device(*device); !prepared) return complain(prepared.error());
  warn_about_slow_blas(*device);
  const auto accelerator = accelerator_of(*device);
  if (!accelerator) return complain(accelerator.error());
  const auto line = agent_channel::control_options(kProgram);
  if (!line) return complain(line.error());
  TorchHost host(*device, *roots, accelerator->get(), replica_group_maker(*device, *replica_group),
                 agent_channel::read_over(*line));
  const auto measure_device = [&](TrainerReady& ready) {
    return guarded([&] { measure(*device, *replica_group, *accelerator != nullptr, ready); });
  };
  return replica::serve({kProgram, host, measure_device});
}

int serve_group_member() {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  GroupSocket leader(kGroupMemberSocket);
  const auto device = device_from_environment();
  if (!device) return complain(device.error());
  const auto roots = roots_from_environment();
  if (!roots) return complain(roots.error());
  if (const Status prepared = prepare_device(*device); !prepared) return complain(prepared.error());
  const auto group = device_group(*device);
  // Without an agent there are no datasets, but there may be files.
  const auto line = agent_channel::control_options(kProgram);
  const Status end = run_group_member(leader, *device, *roots, group.get(),
                                      line ? agent_channel::read_over(*line) : data::ReadStored{});
  return end.error().code == Code::kUnavailable ? 0 : complain(end.error());
}

}  // namespace shoal::trainer
