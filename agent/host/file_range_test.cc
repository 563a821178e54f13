#include "agent/host/file_range.h"

#include <gtest/gtest.h>

#include "proto/agent.grpc.pb.h"

namespace shoal::agent {
namespace {

// Sends its text in messages of three bytes, whatever was asked for.
class Coordinator final : public v1::AgentService::Service {
 public:
  explicit Coordinator(std::string text) : text_(std::move(text)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Coordinator() override { server_->Shutdown(); }

  grpc::Status GetFile(grpc::ServerContext*, const v1::GetFileRequest* request,
                       grpc::ServerWriter<v1::FileBytes>* writer) override {
    asked = *request;
    v1::FileBytes message;
    for (std::size_t at = 0; at < text_.size(); at += 3) {
      message.set_data(text_.substr(at, 3));
      if (!writer->Write(message)) break;
    }
    return {};
  }
  grpc::Status read(const FileRange& range, std::string& content) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const auto channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port_),
                                             grpc::InsecureChannelCredentials());
    return read_range(channel, context, range, content);
  }

  v1::GetFileRequest asked;

 private:
  const std::string text_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(FileRange, TheBytesComeAsTheyWereAskedFor) {
  Coordinator coordinator("shards of text");
  std::string content;
  const grpc::Status status = coordinator.read({ReplicaId(7), "abc", 5, 14}, content);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(content, "shards of text");
  EXPECT_EQ(coordinator.asked.replica(), 7u);
  EXPECT_EQ(coordinator.asked.sha256(), "abc");
  EXPECT_EQ(coordinator.asked.from(), 5);
  EXPECT_EQ(coordinator.asked.count(), 14);
}

TEST(FileRange, MoreThanWasAskedForIsNotTaken) {
  Coordinator coordinator(std::string(1 << 20, 'x'));
  std::string content;
  const grpc::Status status = coordinator.read({ReplicaId(7), "abc", 0, 10}, content);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_LE(content.size(), 10u);
}

}  // namespace
}  // namespace shoal::agent
