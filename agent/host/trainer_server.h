// Serves the trainers of this host over a Unix-domain socket (proto/trainer.proto). A trainer names
// its nonce with the call (kNonceName) and its slot with its first message: together they tell
// which process speaks. One that nobody expects, because it belongs to an earlier start whose list
// was lost, is told to stop. What cannot be read ends its stream; the trainer may come again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "agent/core/io.h"
#include "base/result.h"
#include "proto/trainer.grpc.pb.h"
#include "threads/mutex.h"

namespace shoal::agent {

struct ExpectedTrainer {
  TrainerId trainer;
  std::string nonce;
  ReplicaId replica = {};  // that the agent gave it; none: no replica yet, or not known
};

class TrainerServer : private v1::TrainerHost::CallbackService {
 public:
  using Post = std::function<void(Input)>;  // any thread

  // kUnavailable when the socket cannot be made. A silent trainer is pinged every `ping`; one that
  // does not answer within another `ping` is frozen: its stream ends. `left`: those of an earlier
  // start, which may attach from the first moment on.
  static Result<std::unique_ptr<TrainerServer>> start(const std::string& socket_path, Duration ping,
                                                      const std::vector<ExpectedTrainer>& left,
                                                      Post post);
  ~TrainerServer() override;  // ends all streams

  void expect(const ExpectedTrainer& expected);  // in the place of what was in its slot
  // Which replica the process is from now on: certificates and data of this one it gets.
  void identify(TrainerId trainer, ReplicaId replica);
  void send(TrainerId trainer, const ToTrainer& message);  // dropped when its stream has ended
  // Where certificates of replicas come from: the channel of a session with the coordinator. Null:
  // there is none, and who asks is told to ask again.
  void certify_over(std::shared_ptr<grpc::Channel> channel);
  // How the trainers' questions about datasets are answered, and what breaks answers off when this
  // server ends. Without it they are told to ask again.
  using AnswerData = std::function<void(ReplicaId, const v1::ReadDataRequest&,
                                        std::function<void(Result<std::string>)>)>;
  void read_data_with(AnswerData answer, std::function<void()> stop);
  // Agents whose replicas are no longer trusted: trainers learn it with their next command.
  void revoke(const std::vector<AgentId>& agents);

 private:
  class Stream;
  explicit TrainerServer(Post post) : post_(std::move(post)) {}
  grpc::ServerBidiReactor<v1::TrainerMessage, v1::TrainerCommand>* Attach(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Certify(grpc::CallbackServerContext* context,
                                    const v1::CertifyRequest* request,
                                    v1::CertifyAnswer* answer) override;
  grpc::ServerUnaryReactor* ReadData(grpc::CallbackServerContext* context,
                                     const v1::ReadDataRequest* request,
                                     v1::ReadDataAnswer* answer) override;
  // A trainer may ask for the replica that the agent gave it last, and for no other one of this
  // host, whatever it says of itself.
  grpc::Status may_ask(const std::string& nonce, ReplicaId replica) SHOAL_EXCLUDES(mutex_);
  // The replica that the trainer with this nonce was given last; none: there is no such trainer.
  std::optional<ReplicaId> replica_of(const std::string& nonce) SHOAL_EXCLUDES(mutex_);
  // The process of the slot. kNotFound when it is another one, kConflict when it has a stream.
  Result<TrainerId> attach(const TrainerReady& ready, const std::string& nonce, Stream* stream);
  void detach(TrainerId trainer, Stream* stream) SHOAL_EXCLUDES(mutex_);

  struct Slot {
    std::uint64_t generation = 0;
    std::string nonce;
    Stream* stream = nullptr;
    ReplicaId replica;  // that the agent gave it last
  };
  Post post_;
  Mutex mutex_;  // taken before a stream's own
  std::map<std::int32_t, Slot> slots_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Channel> coordinator_ SHOAL_GUARDED_BY(mutex_);
  std::vector<AgentId> revoked_ SHOAL_GUARDED_BY(mutex_);
  AnswerData answer_data_ SHOAL_GUARDED_BY(mutex_);
  std::function<void()> stop_reading_ SHOAL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace shoal::agent
