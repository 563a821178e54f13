#include "agent/host/trainer_server.h"

#include <chrono>
#include <deque>
#include <filesystem>

#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"
#include "wire/callback_queue.h"
#include "wire/metadata.h"

namespace shoal::agent {
namespace {

constexpr std::size_t kQueueMax = 4096;
constexpr int kMessageBytesMax = 16 << 20;

grpc::Status bad(const std::string& sentence) {
  return {grpc::StatusCode::INVALID_ARGUMENT, sentence};
}

std::string nonce_of(const grpc::CallbackServerContext& context) {
  return wire::read_text(context.client_metadata(), wire::kTrainerNonceName);
}

}  // namespace

// Lives until OnDone, which gRPC calls last.
class TrainerServer::Stream
    : public grpc::ServerBidiReactor<v1::TrainerMessage, v1::TrainerCommand> {
 public:
  Stream(TrainerServer& server, grpc::CallbackServerContext* context)
      : server_(server), context_(context) {
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return finish(grpc::Status::OK);
    auto message = proto::read(incoming_);
    if (!message.ok()) return finish(bad(to_string(message.error())));
    if (attached_) {
      server_.post_(TrainerSaid{id_, std::move(message).value()});
    } else if (const auto* ready = std::get_if<TrainerReady>(&*message); ready == nullptr) {
      return finish(bad("the first message must be ready"));
    } else if (auto id = server_.attach(*ready, nonce_of(*context_), this); !id.ok()) {
      return refuse(id.error());
    } else {
      id_ = *id;
      attached_ = true;
      server_.post_(TrainerAttached{id_, *ready});
    }
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    const MutexLock guard(mutex_);
    writing_ = false;
    if (ok && !finished_) write_next();
  }

  void OnDone() override {
    if (attached_) {
      server_.post_(TrainerDetached{id_});  // before the next stream of its process may attach
      server_.detach(id_, this);
    }
    delete this;
  }

  void send(v1::TrainerCommand command) {
    const MutexLock guard(mutex_);
    if (finished_) return;
    if (queue_.size() >= kQueueMax) return context_->TryCancel();  // it does not read: hung
    queue_.push_back(std::move(command));
    if (!writing_) write_next();
  }

 private:
  void write_next() SHOAL_REQUIRES(mutex_) {
    if (queue_.empty()) return;
    outgoing_ = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
    StartWrite(&outgoing_);
  }

  // A stranger is told to stop; one whose last stream has not ended yet may come again.
  void refuse(const Error& error) SHOAL_EXCLUDES(mutex_) {
    if (error.code != Code::kNotFound) return finish(bad(to_string(error)));
    const MutexLock guard(mutex_);
    outgoing_ = proto::to_wire(ToTrainer(StopTrainer{}));
    StartWriteAndFinish(&outgoing_, {}, bad(to_string(error)));
    finished_ = true;
  }

  void finish(const grpc::Status& status) SHOAL_EXCLUDES(mutex_) {
    const MutexLock guard(mutex_);
    if (!finished_) Finish(status);
    finished_ = true;
  }

  TrainerServer& server_;
  grpc::CallbackServerContext* context_;
  v1::TrainerMessage incoming_;
  TrainerId id_;
  bool attached_ = false;  // reading side only
  Mutex mutex_;
  std::deque<v1::TrainerCommand> queue_ SHOAL_GUARDED_BY(mutex_);
  v1::TrainerCommand outgoing_ SHOAL_GUARDED_BY(mutex_);
  bool writing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool finished_ SHOAL_GUARDED_BY(mutex_) = false;
};

Result<std::unique_ptr<TrainerServer>> TrainerServer::start(
    const std::string& socket_path, Duration ping, const std::vector<ExpectedTrainer>& left,
    Post post) {
  wire::hold_callback_queue();
  std::unique_ptr<TrainerServer> server(new TrainerServer(std::move(post)));
  for (const ExpectedTrainer& expected : left) server->expect(expected);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMessageBytesMax);
  // Trainers ping once a minute to notice a frozen agent; gRPC's default would drop them for it.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(ping.ms()));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(ping.ms()));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddListeningPort("unix:" + socket_path, grpc::InsecureServerCredentials());
  builder.RegisterService(server.get());
  server->server_ = builder.BuildAndStart();
  std::error_code error;
  if (server->server_ == nullptr || !std::filesystem::exists(socket_path, error)) {
    return Error{Code::kUnavailable, "cannot listen on " + socket_path, "--data-dir",
                 "give a --data-dir on a file system that has sockets"};
  }
  std::filesystem::permissions(
      socket_path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, error);
  return server;
}

TrainerServer::~TrainerServer() {
  if (server_ == nullptr) return;
  std::function<void()> stop_reading;
  {
    const MutexLock guard(mutex_);
    stop_reading = stop_reading_;
  }
  if (stop_reading) stop_reading();  // every question is answered before its call ends
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

grpc::ServerBidiReactor<v1::TrainerMessage, v1::TrainerCommand>* TrainerServer::Attach(
    grpc::CallbackServerContext* context) {
  return new Stream(*this, context);
}

void TrainerServer::expect(const ExpectedTrainer& expected) {
  const MutexLock guard(mutex_);
  slots_[expected.trainer.slot] = {expected.trainer.generation, expected.nonce, nullptr,
                                   expected.replica};
}

// ---- certificates

namespace {

constexpr auto kCertifyLimit = std::chrono::seconds(5);

// One question of a trainer on its way to the coordinator. Lives until OnDone.
class Certifying : public grpc::ServerUnaryReactor {
 public:
  explicit Certifying(const grpc::Status& refusal) { Finish(refusal); }
  Certifying(const std::shared_ptr<grpc::Channel>& channel, const v1::CertifyRequest* request,
             v1::CertifyAnswer* answer)
      : stub_(v1::AgentService::NewStub(channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + kCertifyLimit);
    stub_->async()->Certify(&context_, request, answer,
                            [this](const grpc::Status& status) { Finish(status); });
  }
  void OnCancel() override { context_.TryCancel(); }
  void OnDone() override { delete this; }

 private:
  std::unique_ptr<v1::AgentService::Stub> stub_;
  grpc::ClientContext context_;
};

}  // namespace

void TrainerServer::certify_over(std::shared_ptr<grpc::Channel> channel) {
  const MutexLock guard(mutex_);
  coordinator_ = std::move(channel);
}

void TrainerServer::revoke(const std::vector<AgentId>& agents) {
  const MutexLock guard(mutex_);
  revoked_ = agents;
}

grpc::Status TrainerServer::may_ask(const std::string& nonce, ReplicaId replica) {
  std::optional<TrainerId> asks;
  {
    const MutexLock guard(mutex_);
    for (const auto& [number, slot] : slots_) {
      if (nonce.empty() || slot.nonce != nonce) continue;
      if (replica && slot.replica == replica) return grpc::Status::OK;
      asks = TrainerId{number, slot.generation};
    }
  }
  if (!asks) return {grpc::StatusCode::PERMISSION_DENIED, "no such trainer is expected"};
  post_(TrainerOverstepped{*asks, replica});
  return {grpc::StatusCode::PERMISSION_DENIED,
          "trainer " + std::to_string(asks->slot) + " was not given " + to_string(replica)};
}

grpc::ServerUnaryReactor* TrainerServer::Certify(grpc::CallbackServerContext* context,
                                                 const v1::CertifyRequest* request,
                                                 v1::CertifyAnswer* answer) {
  const grpc::Status may = may_ask(nonce_of(*context), ReplicaId(request->replica()));
  if (!may.ok()) return new Certifying(may);
  std::shared_ptr<grpc::Channel> channel;
  {
    const MutexLock guard(mutex_);
    channel = coordinator_;
  }
  if (channel) return new Certifying(channel, request, answer);
  return new Certifying(
      grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator cannot be reached"));
}

// ---- datasets

namespace {

grpc::StatusCode code_of(Code code) {
  switch (code) {
    case Code::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Code::kDataLoss:
      return grpc::StatusCode::DATA_LOSS;
    case Code::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    default:
      return grpc::StatusCode::FAILED_PRECONDITION;
  }
}

grpc::Status status_of(const Error& error) {
  const std::string remedy = error.remedy.empty() ? "" : " (" + error.remedy + ")";
  return {code_of(error.code), error.message + remedy};
}

// One question of a trainer about its data. Lives until OnDone, which comes after the answer.
class Reading : public grpc::ServerUnaryReactor {
 public:
  explicit Reading(v1::ReadDataAnswer* answer) : answer_(answer) {}
  void finish(Result<std::string> read) {
    if (!read) return Finish(status_of(read.error()));
    answer_->set_data(std::move(read).value());
    Finish(grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  v1::ReadDataAnswer* answer_;
};

}  // namespace

void TrainerServer::read_data_with(AnswerData answer, std::function<void()> stop) {
  const MutexLock guard(mutex_);
  answer_data_ = std::move(answer);
  stop_reading_ = std::move(stop);
}

std::optional<ReplicaId> TrainerServer::replica_of(const std::string& nonce) {
  const MutexLock guard(mutex_);
  for (const auto& [number, slot] : slots_) {
    if (!nonce.empty() && slot.nonce == nonce) return slot.replica;
  }
  return std::nullopt;
}

grpc::ServerUnaryReactor* TrainerServer::ReadData(grpc::CallbackServerContext* context,
                                                  const v1::ReadDataRequest* request,
                                                  v1::ReadDataAnswer* answer) {
  auto* reading = new Reading(answer);
  const auto replica = replica_of(nonce_of(*context));
  AnswerData read;
  {
    const MutexLock guard(mutex_);
    read = answer_data_;
  }
  if (!replica) {
    reading->Finish({grpc::StatusCode::PERMISSION_DENIED, "no such trainer is expected"});
  } else if (!read) {
    reading->Finish({grpc::StatusCode::UNAVAILABLE, "this agent reads no datasets yet"});
  } else {
    read(*replica, *request,
         [reading](Result<std::string> got) { reading->finish(std::move(got)); });
  }
  return reading;
}

Result<TrainerId> TrainerServer::attach(const TrainerReady& ready, const std::string& nonce,
                                        Stream* stream) {
  const std::int32_t number = ready.slot;
  const MutexLock guard(mutex_);
  const auto slot = slots_.find(number);
  if (slot == slots_.end() || slot->second.nonce != nonce) {
    return Error{Code::kNotFound,
                 "no trainer with this nonce is expected in slot " + std::to_string(number),
                 "SHOAL_TRAINER_NONCE", ""};
  }
  if (slot->second.stream != nullptr) {
    return Error{Code::kConflict, "slot " + std::to_string(number) + " has a stream already",
                 "SHOAL_TRAINER_SLOT", "try again in a moment"};
  }
  slot->second.stream = stream;
  return TrainerId{number, slot->second.generation};
}

void TrainerServer::detach(TrainerId trainer, Stream* stream) {
  const MutexLock guard(mutex_);
  const auto slot = slots_.find(trainer.slot);
  if (slot != slots_.end() && slot->second.stream == stream) slot->second.stream = nullptr;
}

void TrainerServer::identify(TrainerId trainer, ReplicaId replica) {
  const MutexLock guard(mutex_);
  const auto slot = slots_.find(trainer.slot);
  const bool known = slot != slots_.end() && slot->second.generation == trainer.generation;
  if (known) slot->second.replica = replica;
}

void TrainerServer::send(TrainerId trainer, const ToTrainer& message) {
  const MutexLock guard(mutex_);
  const auto slot = slots_.find(trainer.slot);
  const bool known = slot != slots_.end() && slot->second.generation == trainer.generation;
  if (!known || slot->second.stream == nullptr) return;
  v1::TrainerCommand command = proto::to_wire(message);
  for (const AgentId agent : revoked_) command.add_revoked(agent.n);
  slot->second.stream->send(std::move(command));
}

}  // namespace shoal::agent
