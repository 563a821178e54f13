#include "coordinator/service/files/data_stores.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DataStoresTest : public ::testing::Test {
 protected:
  DataStoresTest() {
    const std::string key = folder_.path() + "/key";
    std::ofstream(key) << "[default]\naws_access_key_id = us\naws_secret_access_key = hidden\n";
    std::filesystem::permissions(key, std::filesystem::perms(0600));
    auto store = objects::read_location("s3://data/web?endpoint=http://h:9000", "--data-store");
    stores_ = DataStores({std::move(*store)},
                         std::move(objects::CredentialSource::open(key, "key")).value());
  }
  TemporaryFolder folder_;
  DataStores stores_;
};

TEST_F(DataStoresTest, WhatLiesInAStoreIsSigned) {
  const std::string url = "s3://data/web/a.bin?endpoint=http://h:9000";
  EXPECT_TRUE(stores_.check(url).ok());
  const auto signed_url = stores_.sign(url);
  ASSERT_TRUE(signed_url.ok()) << to_string(signed_url.error());
  EXPECT_THAT(*signed_url, HasSubstr("http://h:9000/data/web/a.bin?"));
  EXPECT_THAT(*signed_url, HasSubstr("X-Amz-Expires=3600"));
  EXPECT_THAT(*signed_url, Not(HasSubstr("hidden")));
}

TEST_F(DataStoresTest, NothingElseIs) {
  for (const char* url :
       {"s3://data/private/a.bin?endpoint=http://h:9000", "s3://data/webb?endpoint=http://h:9000",
        "s3://data/web/../private/a.bin?endpoint=http://h:9000",
        "s3://other/web/a.bin?endpoint=http://h:9000", "s3://data/web/a.bin?endpoint=http://h:9001",
        "s3://data/web/a.bin", "https://h:9000/data/web/a.bin"}) {
    EXPECT_FALSE(stores_.sign(url).ok()) << url;
  }
  const Status refused = stores_.check("s3://other/a.bin?endpoint=http://h:9000");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message,
              HasSubstr("s3://other/a.bin at http://h:9000 is beneath no"));
  EXPECT_FALSE(DataStores().check("s3://data/web/a.bin").ok());
  EXPECT_TRUE(DataStores().check("https://data.example/a.bin").ok()) << "agents ask it themselves";
}

}  // namespace
}  // namespace shoal::coordinator
