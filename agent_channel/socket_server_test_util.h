// A gRPC server on a Unix socket, from construction to destruction: the end of a line that a test
// plays.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

namespace shoal::agent_channel {

class SocketServer {
 public:
  SocketServer(const std::string& socket, grpc::Service* calls) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(calls);
    server_ = builder.BuildAndStart();
  }
  ~SocketServer() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

 private:
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace shoal::agent_channel
