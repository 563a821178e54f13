// A running server over a filled in-memory cluster.
#pragma once

#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "coordinator/service/http/client_test_util.h"
#include "coordinator/service/http/cluster_test_util.h"
#include "coordinator/service/http/server.h"

namespace shoal::coordinator::testing {

class ServerFixture : public ::testing::Test {
 protected:
  void start(HttpOptions options = {}) {
    options.bind = "127.0.0.1:0";
    fill(cluster_);
    auto server = HttpServer::start(std::move(options), cluster_);
    ASSERT_TRUE(server.ok()) << to_string(server.error());
    server_ = std::move(server).value();
    address_ = server_->address();
  }

  Received get(std::string_view target, std::string_view headers = {}) {
    return testing::ask(address_, "GET", target, headers);
  }

  void expect_problem(const Received& received, int status, const std::string& slug) {
    EXPECT_EQ(received.status, status) << received.body;
    EXPECT_EQ(received.header("content-type"), "application/problem+json");
    ASSERT_TRUE(nlohmann::json::accept(received.body)) << received.body;
    const auto json = received.json();
    EXPECT_EQ(json["type"], "/problems/" + slug);
    EXPECT_EQ(json["code"], slug);
    EXPECT_EQ(json["status"], status);
    EXPECT_FALSE(json["detail"].get<std::string>().empty());
    EXPECT_EQ(json["request_id"], received.header("x-request-id"));
  }

  MemoryCluster cluster_;
  std::unique_ptr<HttpServer> server_;
  std::string address_;
};

}  // namespace shoal::coordinator::testing
