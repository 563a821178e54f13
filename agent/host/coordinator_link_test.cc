// What a failed session with the coordinator says to who reads the agent's log.
#include "agent/host/coordinator_link.h"

#include <chrono>

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include "proto/agent.pb.h"
#include "threads/environment_test_util.h"

namespace shoal::agent {
namespace {

// A coordinator that answers is not missing.
TEST(CoordinatorLink, WhatTheCoordinatorHasNoRoomForIsSaidAsItIs) {
  const Error full = error_of({grpc::StatusCode::RESOURCE_EXHAUSTED, "the disk is full"}, "here:1");
  EXPECT_EQ(full.code, Code::kResourceExhausted);
  EXPECT_EQ(to_string(full), "the disk is full");
  const Error gone = error_of({grpc::StatusCode::UNAVAILABLE, "refused"}, "here:1");
  EXPECT_EQ(gone.code, Code::kUnavailable);
  EXPECT_THAT(gone.message, testing::HasSubstr("no coordinator at here:1"));
}

// The code is that of a broken line, the words are the coordinator's.
TEST(CoordinatorLink, WhatIsOutOfReachOfTheCoordinatorIsNotItsOwnLine) {
  v1::Error said;
  said.set_code("unavailable");
  said.set_message("http://store:9000/ does not answer");
  said.set_field("--checkpoint-store");
  said.set_remedy("start the store");
  const Error error = error_of(
      {grpc::StatusCode::UNAVAILABLE, "does not matter", said.SerializeAsString()}, "here:1");
  EXPECT_EQ(error, (Error{Code::kUnavailable, "http://store:9000/ does not answer",
                          "--checkpoint-store", "start the store"}));
  const Error unreadable = error_of(
      {grpc::StatusCode::UNAVAILABLE, "refused", "\xff details of another kind"}, "here:1");
  EXPECT_THAT(unreadable.message, testing::HasSubstr("no coordinator at here:1: refused"));
}

TEST(CoordinatorLink, TheAddressForPeopleIsRecognized) {
  const Error http = error_of(
      {grpc::StatusCode::UNAVAILABLE, "Cannot check peer: missing selected ALPN property."},
      "here:7070");
  EXPECT_THAT(http.remedy, testing::HasSubstr("that is an HTTP address"));
}

TEST(CoordinatorLink, TheCoordinatorIsReachedWithoutTheProxyOfTheEnvironment) {
  const ScopedEnvironment environment(dead_proxies());
  int port = 0;
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  const auto channel = open_channel({.address = "127.0.0.1:" + std::to_string(port),
                                     .credentials = grpc::InsecureChannelCredentials});
  EXPECT_TRUE(
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)));
  server->Shutdown();
  queue->Shutdown();
}

}  // namespace
}  // namespace shoal::agent
