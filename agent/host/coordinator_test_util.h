// A coordinator that a test plays: sessions, checkpoint files and questions about logs, over gRPC
// on loopback.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "proto/agent.grpc.pb.h"
#include "proto/convert.h"
#include "proto/convert_logs.h"
#include "proto/logs.grpc.pb.h"
#include "threads/mutex.h"
#include "transfer/files.h"

namespace shoal::agent {

inline constexpr std::chrono::seconds kLimit{30};

// The other service of the coordinator: asks one question of the first stream that opens.
class LogReader final : public v1::LogService::Service {
 public:
  grpc::Status Answer(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<v1::LogQuestion, v1::LogAnswer>* stream) override {
    v1::LogAnswer answer;
    if (!stream->Read(&answer)) return grpc::Status::OK;
    const MutexLock guard(mutex_);
    agent_ = AgentId(answer.agent());
    while (!context->IsCancelled()) {
      if (!changed_.wait_for(mutex_, std::chrono::milliseconds(10),
                             [&]() SHOAL_REQUIRES(mutex_) { return asked_; }))
        continue;
      asked_ = false;
      stream->Write(proto::to_wire(1, LogQuery{}));
      if (!stream->Read(&answer)) break;
      page_ = proto::read(answer);
      changed_.notify_all();
    }
    return grpc::Status::OK;
  }

  // Everything that the agent's journal holds.
  std::string read() {
    const MutexLock guard(mutex_);
    page_.reset();
    asked_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(mutex_, kLimit,
                           [&]() SHOAL_REQUIRES(mutex_) { return page_.has_value(); }))
      return "no answer";
    std::string text;
    for (const LogLine& line : page_->value().lines) {
      text += line.source + " " + (line.replica ? to_string(line.replica) : "-") + " " + line.text +
              "\n";
    }
    return text;
  }
  AgentId agent() {
    const MutexLock guard(mutex_);
    return agent_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  AgentId agent_ SHOAL_GUARDED_BY(mutex_);
  bool asked_ SHOAL_GUARDED_BY(mutex_) = false;
  std::optional<Result<LogPage>> page_ SHOAL_GUARDED_BY(mutex_);
};

// Speaks for the coordinator on one session at a time; a test reads what it heard.
class Coordinator : public v1::AgentService::Service {
 public:
  Coordinator() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    builder.RegisterService(&logs);
    server_ = builder.BuildAndStart();
  }
  ~Coordinator() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
  LogReader logs;
  std::atomic<bool> turns_away{false};

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::AgentMessage>* stream) override {
    if (turns_away) return {grpc::StatusCode::UNAUTHENTICATED, "this agent was revoked"};
    v1::AgentMessage wire;
    if (!stream->Read(&wire)) return grpc::Status::OK;
    {
      const MutexLock guard(mutex_);
      hellos_.push_back(*proto::read_hello(wire));
      context_ = context;
      stream_ = stream;
      changed_.notify_all();
    }
    while (stream->Read(&wire)) {
      auto message = proto::read(wire);
      EXPECT_TRUE(message.ok());
      const MutexLock guard(mutex_);
      heard_.push_back(std::move(message).value());
      changed_.notify_all();
    }
    const MutexLock guard(mutex_);
    stream_ = nullptr;
    changed_.notify_all();
    return grpc::Status::OK;
  }

  // Breaks off the first stream after `cut_after` bytes, as if the line had been lost.
  grpc::Status PutCheckpoint(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::CheckpointReceived, v1::CheckpointUpload>* stream) override {
    v1::CheckpointUpload message;
    EXPECT_TRUE(stream->Read(&message) && message.has_header());
    const auto say_received = [&] {
      v1::CheckpointReceived received;
      {
        const MutexLock guard(mutex_);
        received.set_bytes(static_cast<std::int64_t>(partly_.size()));
      }
      stream->Write(received);
    };
    say_received();
    while (stream->Read(&message)) {
      {
        const MutexLock guard(mutex_);
        partly_ += message.chunk().data();
        if (cut_after_ == 0) continue;
        partly_.resize(std::exchange(cut_after_, 0));
      }
      say_received();
      return {grpc::StatusCode::UNAVAILABLE, "cut"};
    }
    const MutexLock guard(mutex_);
    uploaded_ = partly_;
    changed_.notify_all();
    return grpc::Status::OK;
  }
  void cut_uploads_after(std::size_t bytes) {
    const MutexLock guard(mutex_);
    cut_after_ = bytes;
  }

  grpc::Status GetCheckpoint(grpc::ServerContext*, const v1::GetCheckpointRequest* request,
                             grpc::ServerWriter<v1::CheckpointUpload>* writer) override {
    if (request->checkpoint() != 8)
      return {grpc::StatusCode::NOT_FOUND, "there is no such checkpoint"};
    const std::vector<FileEntry> files = {{"model.safetensors", Bytes(7), sha256_of("weights")}};
    const bool resumes = request->list() == list_digest(files);
    const auto from = static_cast<std::size_t>(resumes ? request->from() : 0);
    v1::CheckpointUpload message;
    message.mutable_header()->set_from(static_cast<std::int64_t>(from));
    *message.mutable_header()->add_files() = proto::to_wire(files[0]);
    writer->Write(message);
    const bool cut = from == 0 && cut_downloads_;
    message.mutable_chunk()->set_data(std::string("weights").substr(from, cut ? 3 : 7));
    writer->Write(message);
    fetched_from_ = from;
    return cut ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut") : grpc::Status::OK;
  }
  void cut_downloads() { cut_downloads_ = true; }
  std::size_t fetched_from() const { return fetched_from_; }

  // The n-th Hello since the start, once it came.
  Hello hello(std::size_t n) {
    const MutexLock guard(mutex_);
    EXPECT_TRUE(changed_.wait_for(mutex_, kLimit, [&]() SHOAL_REQUIRES(mutex_) {
      return hellos_.size() >= n && stream_ != nullptr;
    }));
    return hellos_.size() >= n ? hellos_[n - 1] : Hello{};
  }
  void say(const ToAgent& message) { say(proto::to_wire(message)); }
  void say(const v1::CoordinatorMessage& wire) {
    const MutexLock guard(mutex_);
    if (stream_ != nullptr) stream_->Write(wire);
  }
  void welcome(std::vector<ReplicaId> keep = {}) {
    say(Welcome{AgentId(1), {5}, milliseconds(50), seconds(10), std::move(keep)});
  }
  void break_session() {
    const MutexLock guard(mutex_);
    context_->TryCancel();
  }
  // The next message of a kind; others before it are dropped, and kLimit counts for all of them.
  template <typename Body>
  Body next() {
    const auto until = std::chrono::steady_clock::now() + kLimit;
    const MutexLock guard(mutex_);
    for (;;) {
      if (!changed_.wait_for(mutex_, until - std::chrono::steady_clock::now(),
                             [&]() SHOAL_REQUIRES(mutex_) { return !heard_.empty(); }) ||
          std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << "nothing of this kind was heard";
        return {};
      }
      const FromAgent message = std::move(heard_.front());
      heard_.pop_front();
      if (const auto* body = std::get_if<Body>(&message)) return *body;
    }
  }
  std::string uploaded() {
    const MutexLock guard(mutex_);
    EXPECT_TRUE(changed_.wait_for(mutex_, kLimit,
                                  [&]() SHOAL_REQUIRES(mutex_) { return !uploaded_.empty(); }));
    return uploaded_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Hello> hellos_ SHOAL_GUARDED_BY(mutex_);
  std::deque<FromAgent> heard_ SHOAL_GUARDED_BY(mutex_);
  std::string uploaded_ SHOAL_GUARDED_BY(mutex_);
  std::string partly_ SHOAL_GUARDED_BY(mutex_);
  std::size_t cut_after_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> cut_downloads_{false};
  std::atomic<std::size_t> fetched_from_{0};
  grpc::ServerContext* context_ SHOAL_GUARDED_BY(mutex_) = nullptr;
  grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::AgentMessage>* stream_ = nullptr;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace shoal::agent
