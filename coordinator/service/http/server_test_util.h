// A running server over a filled in-memory cluster; its clients are an admin.
#pragma once

#include <memory>
#include <string>

#include <gmock/gmock.h>

#include "coordinator/service/http/client_test_util.h"
#include "coordinator/service/http/cluster_test_util.h"
#include "coordinator/service/http/server.h"
#include "coordinator/service/people/people.h"
#include "coordinator/store/store_test_util.h"
#include "identity/private_file.h"

namespace shoal::coordinator::testing {

class ServerFixture : public ::testing::Test {
 protected:
  void start(HttpOptions options = {}) {
    options.bind = "127.0.0.1:0";
    fill(cluster_);
    options.people = &people();
    login_line() = "Authorization: Bearer " + admin_token() + "\r\n";
    auto server = HttpServer::start(std::move(options), cluster_);
    ASSERT_TRUE(server.ok()) << to_string(server.error());
    server_ = std::move(server).value();
    address_ = server_->address();
  }

  // The same one over several starts.
  People& people() {
    if (!people_) {
      people_ =
          std::move(People::open({.folder = people_folder_.path()}, cluster_.store())).value();
    }
    return *people_;
  }
  std::string admin_token() {
    return std::move(identity::read_token_file(people().admin_token_file())).value();
  }
  // The header of somebody with a new token.
  std::string login_of(const std::string& name, identity::ScopeSet scopes) {
    const auto made = people().create_token(name, scopes, seconds(3600));
    return "Authorization: Bearer " + made.value().text + "\r\n";
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
  TemporaryFolder people_folder_;
  std::unique_ptr<People> people_;
  std::unique_ptr<HttpServer> server_;
  std::string address_;
};

}  // namespace shoal::coordinator::testing
