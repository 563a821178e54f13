// Which addresses of a coordinator are taken; what is asked of one is tested over real sockets.
#include "cli/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::cli {
namespace {

using testing::HasSubstr;

Status check(const std::string& address) { return check_origin(Api(address).origin()); }

TEST(Api, AddressesAreCompleted) {
  EXPECT_EQ(Api("localhost:7070/").origin(), "http://localhost:7070");
  EXPECT_EQ(Api(":7070").origin(), "http://127.0.0.1:7070");
  EXPECT_EQ(Api("https://shoal.example.org/team/").origin(), "https://shoal.example.org/team");
}

TEST(Api, AnAddressNeedsAPort) {
  for (const char* good : {"localhost:7070", ":7070", "http://h:80", "[::1]:7070", "h:7070/x",
                           "https://shoal.example.org"}) {
    EXPECT_TRUE(check(good).ok()) << good;
  }
  for (const char* bad : {"localhost", "localhost:", "http://localhost", "http://localhost/x:1",
                          "[::1]", "7070", "", "http://", "http://:7070"}) {
    EXPECT_FALSE(check(bad).ok()) << bad;
    EXPECT_EQ(check(bad).error().field, "--addr") << bad;
  }
  EXPECT_THAT(check("node-7").error().message, HasSubstr("'node-7' has no port"));
  EXPECT_THAT(check("node-7").error().remedy, HasSubstr("http://node-7:7070"));
}

TEST(Api, ABadAddressIsRefusedByEveryCall) {
  EXPECT_EQ(Api("localhost").get("/jobs").error().code, Code::kInvalidArgument);
  EXPECT_FALSE(Api("localhost").answers("/readyz"));
}

}  // namespace
}  // namespace shoal::cli
