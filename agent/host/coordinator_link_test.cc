// What a failed session with the coordinator says to who reads the agent's log.
#include "agent/host/coordinator_link.h"

#include <gmock/gmock.h>
#include <grpcpp/support/status.h>

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

TEST(CoordinatorLink, TheAddressForPeopleIsRecognized) {
  const Error http = error_of(
      {grpc::StatusCode::UNAVAILABLE, "Cannot check peer: missing selected ALPN property."},
      "here:7070");
  EXPECT_THAT(http.remedy, testing::HasSubstr("that is an HTTP address"));
}

}  // namespace
}  // namespace shoal::agent
