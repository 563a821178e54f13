// A trainer without a model, for the tests of the host side: it attaches, loads whatever it is
// given and obeys StopTrainer. SCRIPT names what it does instead: "exit" (code 3 and a last line),
// "hang" (never attaches), "abort", "environment" (prints what it was started with), "ignore_stop",
// "freeze" (when told to evaluate, instead of aborting).
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <string>

#include <unistd.h>

#include "agent_channel/control.h"
#include "agent_channel/environment.h"

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
    const auto options = agent_channel::control_options("scripted_trainer");
    if (!options.ok()) return std::cerr << to_string(options.error()) << "\n", 1;
    auto control = agent_channel::Control::dial(*options, {.command =
                                                               [this](ToTrainer command) {
                                                                 obey_any(command);
                                                                 return true;
                                                               },
                                                           .ended = [this] { end(); },
                                                           .closing = [] {}});
    if (!control.ok()) return std::cerr << to_string(control.error()) << "\n", 1;
    control_ = std::move(control).value();
    Device device{std::stoi(variable("SHOAL_TRAINER_DEVICE")),
                  DeviceKind::kCpu,
                  "scripted",
                  Bytes(1 << 30),
                  14 * std::stod(variable("SHOAL_TRAINER_SPEED")),
                  false};
    ready_ = {.slot = std::stoi(variable("SHOAL_TRAINER_SLOT")),
              .device = device,
              .peer_address = variable("SHOAL_TRAINER_HOST") + ":1",
              .libraries = "none"};
    control_->start(ready_);
    over_.get_future().wait();
    control_.reset();
    return 0;
  }

 private:
  void say(const FromTrainer& message) { control_->say(message); }
  void obey_any(const ToTrainer& command) {
    std::visit([this](const auto& each) { obey(each); }, command);
  }
  void end() {
    if (!ended_.exchange(true)) over_.set_value();
  }

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
  void obey(const Release&) {
    if (variable("SCRIPT") != "ignore_release") control_->say(ready_);
  }
  void obey(const StopTrainer&) {
    if (variable("SCRIPT") != "ignore_stop") end();
  }
  void obey(const auto&) {}

  std::unique_ptr<agent_channel::Control> control_;
  TrainerReady ready_;
  std::promise<void> over_;
  std::atomic<bool> ended_ = false;
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
