// The routes of tokens, machines and CAs: what they take, and what they refuse with which sentence.
#include "coordinator/service/machines/machines.h"

#include <gmock/gmock.h>

#include "coordinator/service/http/server_test_util.h"
#include "coordinator/service/http/tls_client_test_util.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator::rest {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class MachineRoutes : public testing::ServerFixture {
 protected:
  void SetUp() override {
    store_ = std::move(Store::open(folder_.path())).value();
    machines_ = std::move(Machines::open({.folder = folder_.path()}, *store_)).value();
    start({.machines = machines_.get()});
  }
  testing::Received post(const std::string& path, const std::string& body = {}) {
    return testing::ask(address_, "POST", path, "Content-Type: application/json\r\n", body);
  }
  json enrolment(const std::string& token) {
    return {{"token", token},
            {"csr", identity::make_request(key_)},
            {"uid", std::string(32, 'c')},
            {"name", "new"},
            {"clock_unix_ms", machines_->now().ns / 1'000'000}};
  }
  std::string post_over_tls(const std::string& path, const json& body) {
    const auto token = identity::parse_join_token(
        *machines_->create_token(1, seconds(60)));  // the CA of the moment
    return testing::ask_over_tls(address_, token->ca, machines_->now(),
                                 testing::post_text(path, body.dump()))
        .text;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Machines> machines_;
  const identity::PrivateKey key_ = identity::PrivateKey::make();
};

TEST_F(MachineRoutes, ATokenIsMadeListedAndRemoved) {
  const auto made = post("/api/v1/join/tokens", R"({"uses":3,"ttl_s":3600})");
  ASSERT_EQ(made.status, 201) << made.body;
  const std::string text = made.json()["token"];
  const auto token = identity::parse_join_token(text);
  ASSERT_TRUE(token.ok());
  const auto listed = get("/api/v1/join/tokens");
  EXPECT_EQ(listed.body.find(token->secret), std::string::npos);
  const json entry = listed.json()["items"].back();
  EXPECT_EQ(entry["id"], to_string(token->id));
  EXPECT_EQ(entry["state"], "works");
  EXPECT_EQ(entry["uses_max"], 3);
  const auto removed =
      testing::ask(address_, "DELETE", "/api/v1/join/tokens/" + to_string(token->id));
  EXPECT_EQ(removed.json()["state"], "revoked");
  expect_problem(testing::ask(address_, "DELETE", "/api/v1/join/tokens/join_99"), 404, "not-found");
}

TEST_F(MachineRoutes, WhatATokenMayNotBeIsNamed) {
  EXPECT_EQ(
      post("/api/v1/join/tokens", R"({"uses":0,"ttl_s":3600})").json()["errors"][0]["pointer"],
      "uses");
  EXPECT_EQ(post("/api/v1/join/tokens", R"({"uses":1,"ttl_s":0})").json()["errors"][0]["pointer"],
            "ttl");
  EXPECT_EQ(post("/api/v1/join/tokens", R"({"uses":1})").status, 400);
  EXPECT_EQ(post("/api/v1/join/tokens", R"({"uses":1,"ttl_s":5,"name":"x"})").status, 400);
  EXPECT_EQ(post("/api/v1/join/tokens", "[]").status, 400);
}

TEST_F(MachineRoutes, AHostJoinsOverTlsOnly) {
  const json body = enrolment(*machines_->create_token(1, seconds(60)));
  expect_problem(post("/api/v1/enrol", body.dump()), 403, "permission-denied");
  const std::string answer = post_over_tls("/api/v1/enrol", body);
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("BEGIN CERTIFICATE"));
}

TEST_F(MachineRoutes, AHostIsToldWhyItMayNotJoin) {
  json body = enrolment(*machines_->create_token(1, seconds(60)));
  body["clock_unix_ms"] = machines_->now().ns / 1'000'000 + 3'600'000;
  EXPECT_THAT(post_over_tls("/api/v1/enrol", body), HasSubstr("ahead of the coordinator's"));
  body["clock_unix_ms"] = -1;
  EXPECT_THAT(post_over_tls("/api/v1/enrol", body), HasSubstr("400 Bad Request"));
  body = enrolment("shoaljoin1.nonsense");
  EXPECT_THAT(post_over_tls("/api/v1/enrol", body), HasSubstr("is not a join token"));
  body = enrolment(*machines_->create_token(1, seconds(60)));
  body["csr"] = "none";
  EXPECT_THAT(post_over_tls("/api/v1/enrol", body), HasSubstr("400 Bad Request"));
  EXPECT_THAT(post_over_tls("/api/v1/renew", {{"chain", "x"}}), HasSubstr("400 Bad Request"));
}

TEST_F(MachineRoutes, AnAgentWithoutACertificateCannotBeRevoked) {
  expect_problem(post("/api/v1/agents/agt_1/revoke"), 404, "not-found");
  expect_problem(post("/api/v1/agents/nobody/revoke"), 404, "not-found");
}

TEST_F(MachineRoutes, TheCaIsShownAndRotated) {
  EXPECT_EQ(get("/api/v1/authorities").json()["items"].size(), 1u);
  const auto rotated = post("/api/v1/authorities/rotate");
  ASSERT_EQ(rotated.status, 200) << rotated.body;
  ASSERT_EQ(rotated.json()["items"].size(), 2u);
  EXPECT_EQ(rotated.json()["items"][0]["issues"], false);
  EXPECT_EQ(rotated.json()["items"][1]["issues"], true);
  expect_problem(post("/api/v1/authorities/rotate"), 409, "conflict");
}

}  // namespace
}  // namespace shoal::coordinator::rest
