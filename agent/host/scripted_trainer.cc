// A trainer without a model, for the tests of the host side: it attaches, loads whatever it is
// given and obeys StopTrainer. SCRIPT names what it does instead: "exit" (code 3 and a last line),
// "hang" (never attaches), "abort", "environment" (prints what it was started with), "ignore_stop",
// "freeze" (when told to evaluate, instead of aborting).
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include "proto/convert.h"
#include "proto/trainer.grpc.pb.h"

extern char** environ;

namespace shoal {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

class Script {
 public:
  int run() {
    const auto channel = grpc::CreateChannel("unix:" + variable("SHOAL_TRAINER_SOCKET"),
                                             grpc::InsecureChannelCredentials());
    const auto stub = v1::TrainerHost::NewStub(channel);
    grpc::ClientContext context;
    stream_ = stub->Attach(&context);
    Device device{std::stoi(variable("SHOAL_TRAINER_DEVICE")),
                  DeviceKind::kCpu,
                  "scripted",
                  Bytes(1 << 30),
                  14 * std::stod(variable("SHOAL_TRAINER_SPEED")),
                  false};
    say(TrainerReady{std::stoi(variable("SHOAL_TRAINER_SLOT")), device,
                     variable("SHOAL_TRAINER_HOST") + ":1", "none"});
    v1::TrainerCommand wire;
    while (!stopped_ && stream_->Read(&wire)) {
      const auto command = proto::read(wire);
      if (!command.ok()) return std::cerr << to_string(command.error()) << "\n", 1;
      std::visit([this](const auto& each) { obey(each); }, *command);
    }
    return 0;
  }

 private:
  void say(const FromTrainer& message) { stream_->Write(proto::to_wire(message)); }

  void obey(const LoadReplica& load) {
    const auto& source = load.assign.source;
    const bool folder = std::filesystem::exists(load.checkpoint_folder + "/model.safetensors");
    if (source.kind == SourceKind::kCheckpoint && !folder) {
      return say(ReplicaFailed{load.assign.replica, ReplicaFailure::kInternal, "no file"});
    }
    say(Loaded{load.assign.replica, source.key, {1, 2}, {}, 10, "127.0.0.1:1"});
  }
  void obey(const WriteCheckpointTo& command) {
    std::filesystem::create_directories(command.folder);
    std::ofstream(command.folder + "/model.safetensors") << "weights";
    say(CheckpointReady{command.replica, command.command.checkpoint, command.command.key});
  }
  void obey(const ToReplica<Evaluate>&) {  // a test's way to kill it
    if (variable("SCRIPT") != "freeze") {
      std::cerr << "told to evaluate\n";
      std::abort();
    }
    raise(SIGSTOP);
  }
  void obey(const StopTrainer&) { stopped_ = variable("SCRIPT") != "ignore_stop"; }
  void obey(const auto&) {}

  std::unique_ptr<grpc::ClientReaderWriter<v1::TrainerMessage, v1::TrainerCommand>> stream_;
  bool stopped_ = false;
};

}  // namespace
}  // namespace shoal

int main() {
  const std::string script = shoal::variable("SCRIPT");
  if (script == "exit") return std::cerr << "first\nno libtorch here\n", 3;
  if (script == "abort") std::abort();
  if (script == "hang") pause();
  if (script == "environment") {
    for (char** each = environ; *each != nullptr; ++each) std::cout << *each << "\n";
    return 0;
  }
  return shoal::Script().run();
}
