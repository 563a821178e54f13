#include "objects/presign.h"

#include <gmock/gmock.h>

namespace shoal::objects {
namespace {

// The example of the Amazon S3 API Reference, "Authenticating Requests: Using Query Parameters".
TEST(Presign, IsThatOfTheReference) {
  const Location location{.bucket = "examplebucket",
                          .prefix = {},
                          .endpoint = "https://s3.amazonaws.com",
                          .region = "us-east-1",
                          .in_path = false};
  const Credentials credentials{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                                ""};
  const Instant at{1369353600'000'000'000};  // 2013-05-24T00:00:00Z
  EXPECT_EQ(presign(location, credentials, {"GET", "test.txt", {}, {}, seconds(86'400)}, at),
            "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
            "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
            "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
            "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
}

TEST(Presign, HeadersAndQueryAreSignedAndTheTokenIsSaid) {
  const Location location{.bucket = "b", .prefix = {}, .endpoint = "http://127.0.0.1:9"};
  const auto url = [&](const std::string& sha, const std::string& part) {
    return presign(
        location, {"id", "secret", "to/ken"},
        {"PUT", "a b/c", {{"partNumber", part}}, {{"x-amz-meta-sha256", sha}}, seconds(60)},
        Instant{0});
  };
  const std::string one = url("1", "1");
  EXPECT_THAT(one, ::testing::StartsWith("http://127.0.0.1:9/b/a%20b/c?"));
  EXPECT_THAT(one, ::testing::HasSubstr("X-Amz-SignedHeaders=host%3Bx-amz-meta-sha256"));
  EXPECT_THAT(one, ::testing::HasSubstr("X-Amz-Security-Token=to%2Fken"));
  const auto signature = [](const std::string& text) { return text.substr(text.size() - 64); };
  EXPECT_NE(signature(one), signature(url("2", "1")));
  EXPECT_NE(signature(one), signature(url("1", "2")));
}

}  // namespace
}  // namespace shoal::objects
