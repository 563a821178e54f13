// Requests that are refused, over a real socket: how they are counted, and what the audit trail
// says.
#include "coordinator/service/http/refusal.h"

#include "coordinator/service/http/server_test_util.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class RefusalTest : public testing::ServerFixture {
 protected:
  RefusalTest()
      : refusals_([this](AuditRecord record) { rows_.push_back(std::move(record)); },
                  [this] { return people().now(); }) {}

  void start_counted() {
    HttpOptions options;
    options.refusals = &refusals_;
    start(std::move(options));
  }
  testing::Received ask(std::string_view method, std::string_view target, std::string_view headers,
                        std::string_view body = "") {
    return testing::ask(address_, method, target, headers, body);
  }
  std::int64_t refused(RefusalReason why, Port port = Port::kHttp) {
    return refusals_.counts(port)[why];
  }

  std::vector<AuditRecord> rows_;
  Refusals refusals_;
};

constexpr const char* kWrong =
    "Authorization: Bearer "
    "shoalapi1.tok_1.0000000000000000000000000000000000000000000000000000000000000000\r\n";

TEST_F(RefusalTest, ATokenThatDoesNotWorkIsCountedAndToldOnce) {
  start_counted();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask("GET", "/api/v1/jobs", kWrong).status, 401);
  EXPECT_EQ(refused(RefusalReason::kUnauthenticated), 20);
  ASSERT_THAT(rows_, SizeIs(1));
  EXPECT_EQ(rows_[0].action, kRefusedToken);
  EXPECT_EQ(rows_[0].object, "this host");
  EXPECT_THAT(rows_[0].after, HasSubstr("token"));
}

TEST_F(RefusalTest, WhoShowsNothingIsCountedOnly) {
  start_counted();
  testing::login_line() = "";
  EXPECT_EQ(ask("GET", "/api/v1/jobs", "").status, 401);
  EXPECT_EQ(refused(RefusalReason::kUnauthenticated), 1);
  EXPECT_THAT(rows_, SizeIs(0));
}

TEST_F(RefusalTest, ALoginThatFailsIsTold) {
  start_counted();
  EXPECT_EQ(ask("POST", "/api/v1/session", "Content-Type: application/json\r\n",
                R"({"token":"shoalapi1.tok_1.wrong"})")
                .status,
            401);
  ASSERT_THAT(rows_, SizeIs(1));
  EXPECT_EQ(rows_[0].action, kRefusedLogin);
}

TEST_F(RefusalTest, EachKindHasItsWord) {
  start_counted();
  const std::string viewer = login_of("eve", {identity::Scope::kViewer});
  EXPECT_EQ(ask("POST", "/api/v1/agents/agt_1/revoke", viewer).status, 403);
  EXPECT_EQ(ask("GET", "/livez", "Host: evil.example\r\n").status, 421);
  EXPECT_EQ(refused(RefusalReason::kForbidden), 2);
  EXPECT_EQ(ask("PUT", "/api/v1/jobs", "").status, 405);
  EXPECT_EQ(refused(RefusalReason::kMalformed), 1);
  EXPECT_EQ(ask("GET", "/api/v1/jobs/job_404", "").status, 404);  // refuses nobody
  EXPECT_EQ(refusals_.counts(Port::kHttp).total(), 3);
}

// What a host joins with is not taken in clear.
TEST_F(RefusalTest, JoiningHasAPortOfItsOwn) {
  start_counted();
  EXPECT_EQ(ask("POST", "/api/v1/enrol", "", "{}").status, 403);
  EXPECT_EQ(ask("POST", "/api/v1/renew", "", "{}").status, 403);
  EXPECT_EQ(refused(RefusalReason::kForbidden, Port::kJoin), 2);
  ASSERT_THAT(rows_, SizeIs(2));
  EXPECT_EQ(rows_[0].action, kRefusedJoin);
  EXPECT_EQ(rows_[1].action, kRefusedRenewal);
}

TEST(Refusal, OfAnswers) {
  EXPECT_EQ(rest::refusal_of(nullptr, 200), std::nullopt);
  EXPECT_EQ(rest::refusal_of(nullptr, 404), std::nullopt);
  EXPECT_EQ(rest::refusal_of(nullptr, 409), std::nullopt);
  EXPECT_EQ(rest::refusal_of(nullptr, 422), std::nullopt);
  EXPECT_EQ(rest::refusal_of(nullptr, 429), RefusalReason::kLimits);
  EXPECT_EQ(rest::refusal_of(nullptr, 431), RefusalReason::kMalformed);
}

}  // namespace
}  // namespace shoal::coordinator
