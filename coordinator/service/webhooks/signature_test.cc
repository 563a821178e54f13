#include "coordinator/service/webhooks/signature.h"

#include <gmock/gmock.h>

namespace shoal::coordinator {
namespace {

// The example of the Standard Webhooks specification.
TEST(WebhookSignature, IsThatOfTheSpecification) {
  const auto key = read_webhook_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(
      sign_webhook(*key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, R"({"test": 2432232314})"),
      "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

TEST(WebhookSignature, AMadeSecretCanBeRead) {
  const std::string one = make_webhook_secret(), other = make_webhook_secret();
  EXPECT_NE(one, other);
  EXPECT_EQ(read_webhook_secret(one)->size(), 32u);
}

TEST(WebhookSignature, OtherTextIsRefused) {
  for (const char* text :
       {"", "whsec_", "whsec_MfKQ", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "whsec_!fKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}) {
    EXPECT_FALSE(read_webhook_secret(text).ok()) << text;
  }
}

}  // namespace
}  // namespace shoal::coordinator
