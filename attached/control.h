// The line of a process to the agent that started it: dials the Unix-domain socket, opens Attach,
// says TrainerReady and then hands on what the agent sends. Trainers and reducers use it.
//
// Both directions are written to the log (control_log.h), which is the standard error.
//
// say() may be called from any thread. What the agent sends and we cannot read ends the stream: the
// two are of different versions.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "attached/control_log.h"
#include "base/result.h"
#include "proto/trainer.grpc.pb.h"
#include "swarm/core/trainer_messages.h"

namespace shoal::attached {

// Called from the thread that reads, but for `closing`, which is called by the destructor before it
// waits for that thread: a command() that waits must give up then (false ends the reading).
struct ControlEvents {
  std::function<bool(ToTrainer)> command;
  std::function<void()> ended;  // the stream, for whatever reason: the process is to exit
  std::function<void()> closing;
};

class Control {
 public:
  // kUnavailable when nobody answers on the socket within kDialLimit. `program` is for complaints.
  static Result<std::unique_ptr<Control>> dial(const std::string& socket_path,
                                               const std::string& program, ControlEvents events);
  ~Control();

  void start(const TrainerReady& ready);  // says it and begins to read
  void say(const FromTrainer& message);   // dropped when the stream has ended

 private:
  using Stream = grpc::ClientReaderWriter<v1::TrainerMessage, v1::TrainerCommand>;
  static constexpr Duration kDialLimit = seconds(20);
  static constexpr Duration kKeepalive = seconds(60);  // the agent permits a ping every 30 s

  Control(std::string program, ControlEvents events);
  void read_loop();

  const std::string program_;
  const ControlEvents events_;
  ControlLog log_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::TrainerHost::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  std::mutex write_mutex_;
  std::thread reader_;
};

}  // namespace shoal::attached
