// Serves the trainers of this host over a Unix-domain socket (proto/trainer.proto). A trainer says
// its slot with its first message; the process that runs in it at that moment is the one that
// speaks. What cannot be read ends its stream, and with it the trainer.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <grpcpp/grpcpp.h>

#include "agent/core/io.h"
#include "base/result.h"
#include "proto/trainer.grpc.pb.h"

namespace shoal::agent {

class TrainerServer : private v1::TrainerHost::CallbackService {
 public:
  using Post = std::function<void(Input)>;  // any thread

  // kUnavailable when the socket cannot be made. A silent trainer is pinged every `ping`; one that
  // does not answer within another `ping` is frozen: its stream ends.
  static Result<std::unique_ptr<TrainerServer>> start(const std::string& socket_path, Duration ping,
                                                      Post post);
  ~TrainerServer() override;  // ends all streams

  void expect(TrainerId trainer);                          // its process was started
  void send(TrainerId trainer, const ToTrainer& message);  // dropped when its stream has ended

 private:
  class Stream;
  explicit TrainerServer(Post post) : post_(std::move(post)) {}
  grpc::ServerBidiReactor<v1::TrainerMessage, v1::TrainerCommand>* Attach(
      grpc::CallbackServerContext* context) override;
  // The process of the slot, if it has no stream yet.
  Result<TrainerId> attach(std::int32_t number, Stream* stream);
  void detach(TrainerId trainer, Stream* stream);

  struct Slot {
    std::uint64_t generation = 0;
    Stream* stream = nullptr;
  };
  Post post_;
  std::mutex mutex_;  // slots_; taken before a stream's own
  std::map<std::int32_t, Slot> slots_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace shoal::agent
