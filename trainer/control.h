// The trainer's line to its agent: dials the Unix-domain socket, opens Attach, says TrainerReady
// and then turns the stream into queue entries. When the stream ends, for whatever reason,
// StreamEnded is queued and the trainer exits; the agent starts a new one when it wants one.
//
// Both directions are written to the log (trainer_log.h), which is the standard error.
//
// say() may be called from any thread. What the agent sends and we cannot read ends the stream: the
// two are of different versions.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "proto/trainer.grpc.pb.h"
#include "swarm/core/messages.h"
#include "trainer/event_queue.h"
#include "trainer/trainer_log.h"

namespace shoal::trainer {

class Control {
 public:
  // kUnavailable when nobody answers on the socket within kDialLimit.
  static Result<std::unique_ptr<Control>> dial(const std::string& socket_path, EventQueue& queue);
  ~Control();

  void start(const TrainerReady& ready);  // says it and begins to read
  void say(const FromTrainer& message);   // dropped when the stream has ended

 private:
  using Stream = grpc::ClientReaderWriter<v1::TrainerMessage, v1::TrainerCommand>;
  static constexpr Duration kDialLimit = seconds(20);
  static constexpr Duration kKeepalive = seconds(60);  // the agent permits a ping every 30 s

  explicit Control(EventQueue& queue);
  void read_loop();

  EventQueue& queue_;
  TrainerLog log_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::TrainerHost::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
  std::mutex write_mutex_;
  std::thread reader_;
};

}  // namespace shoal::trainer
