#include "coordinator/service/webhooks/post.h"

#include <gmock/gmock.h>

#include "cli/server_test_util.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

TEST(WebhookUrl, IsOfHttpsOrOfThisHost) {
  for (const char* url : {"https://hooks.example/a?b=c", "http://127.0.0.1:8080/",
                          "http://localhost/x", "http://[::1]:9/"}) {
    EXPECT_TRUE(check_webhook_url(url, false).ok()) << url;
  }
  EXPECT_TRUE(check_webhook_url("http://hooks.example/", true).ok());
  EXPECT_THAT(check_webhook_url("http://hooks.example/", false).error().message,
              HasSubstr("in clear"));
  EXPECT_THAT(check_webhook_url("https://me:pw@hooks.example/", true).error().message,
              HasSubstr("password"));
  for (const char* url :
       {"", "hooks.example", "file:///etc/passwd", "ftp://hooks.example/", "https://"}) {
    const Status status = check_webhook_url(url, true);
    ASSERT_FALSE(status.ok()) << url;
    EXPECT_EQ(status.error().field, "--webhook");
  }
}

TEST(WebhookPost, CarriesHeadersAndBody) {
  std::string seen;
  cli::ScriptedServer server([&](const std::string& request) {
    seen = request;
    return cli::http_answer(204, "");
  });
  EXPECT_TRUE(send({server.address() + "/hook", R"({"a":1})", {{"webhook-id", "evt_1"}}}).ok());
  EXPECT_THAT(seen, HasSubstr("POST /hook HTTP/1.1\r\n"));
  EXPECT_THAT(seen, HasSubstr("webhook-id: evt_1\r\n"));
  EXPECT_THAT(seen, HasSubstr("\r\n\r\n{\"a\":1}"));
}

TEST(WebhookPost, OnlySuccessCounts) {
  cli::ScriptedServer server([&](const std::string&) {
    return cli::http_answer(302, "", "text/plain", "Location: http://127.0.0.1:1/\r\n");
  });
  const Status moved = send({server.address(), "{}", {}});
  ASSERT_FALSE(moved.ok());
  EXPECT_THAT(moved.error().message, HasSubstr("status 302")) << "it is not followed";
  EXPECT_FALSE(send({"http://127.0.0.1:1/", "{}", {}}).ok());
}

}  // namespace
}  // namespace shoal::coordinator
