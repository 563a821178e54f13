// See control.h.
#include "attached/control.h"

#include <chrono>
#include <iostream>

#include <grpcpp/grpcpp.h>

#include "proto/convert.h"

namespace shoal::attached {

Result<std::unique_ptr<Control>> Control::dial(const std::string& socket_path,
                                               const std::string& program, ControlEvents events) {
  std::unique_ptr<Control> control(new Control(program, std::move(events)));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(16 << 20);
  // An agent that is frozen must not hold a writer for ever: its silence ends the stream.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepalive.ms()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kKeepalive.ms()));
  control->channel_ = grpc::CreateCustomChannel("unix:" + socket_path,
                                                grpc::InsecureChannelCredentials(), arguments);
  const auto limit = std::chrono::system_clock::now() + std::chrono::nanoseconds(kDialLimit.ns);
  if (!control->channel_->WaitForConnected(limit)) {
    return Error{Code::kUnavailable, "no agent answers on " + socket_path, "SHOAL_TRAINER_SOCKET",
                 program + " is started by shoal-agent"};
  }
  control->stub_ = v1::TrainerHost::NewStub(control->channel_);
  control->stream_ = control->stub_->Attach(&control->context_);
  return control;
}

Control::Control(std::string program, ControlEvents events)
    : program_(std::move(program)),
      events_(std::move(events)),
      log_([](const std::string& line) { std::cerr << line + "\n"; }) {}

Control::~Control() {
  events_.closing();
  if (stream_) stream_->WritesDone();  // what was said last is on its way before the stream goes
  context_.TryCancel();
  if (reader_.joinable()) reader_.join();
}

void Control::start(const TrainerReady& ready) {
  say(ready);
  reader_ = std::thread([this] { read_loop(); });
}

void Control::say(const FromTrainer& message) {
  log_.said(message);
  const std::lock_guard lock(write_mutex_);
  stream_->Write(proto::to_wire(message));  // false: the stream ended, which the reader reports
}

void Control::read_loop() {
  v1::TrainerCommand wire;
  while (stream_->Read(&wire)) {
    auto command = proto::read(wire);
    if (!command) {
      std::cerr << program_
                << ": the agent sent what cannot be read: " << to_string(command.error())
                << std::endl;
      context_.TryCancel();
      break;
    }
    log_.heard(*command);
    if (!events_.command(std::move(*command))) break;
  }
  events_.ended();
}

}  // namespace shoal::attached
