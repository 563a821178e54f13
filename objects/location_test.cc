#include "objects/location.h"

#include <gmock/gmock.h>

namespace shoal::objects {
namespace {

using ::testing::HasSubstr;

TEST(Location, IsReadWithItsDefaults) {
  const auto amazon = read_location("s3://my-bucket/a/b/?region=eu-central-1", "--x");
  ASSERT_TRUE(amazon.ok());
  EXPECT_EQ(*amazon, (Location{"my-bucket", "a/b/", "https://s3.eu-central-1.amazonaws.com",
                               "eu-central-1", false, mebibytes(16)}));
  EXPECT_EQ(url_of(*amazon, "a/b/k"), "https://my-bucket.s3.eu-central-1.amazonaws.com/a/b/k");
  const auto own = read_location("s3://bucket?endpoint=http://10.0.0.1:9000/&part_mib=5", "--x");
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(url_of(*own, "k+1"), "http://10.0.0.1:9000/bucket/k%2B1");
  EXPECT_EQ(own->part, mebibytes(5));
}

TEST(Location, OtherTextIsRefusedByName) {
  for (const char* text :
       {"", "s3:/bucket", "https://bucket", "s3://", "s3://B", "s3://bucket/../x", "s3://bucket//x",
        "s3://bucket?endpoint=ftp://x", "s3://bucket?endpoint=http://x/y",
        "s3://bucket?region=", "s3://bucket?style=both", "s3://bucket?part_mib=1",
        "s3://bucket?part_mib=5x", "s3://bucket?what=1", "s3://bucket?region"}) {
    const auto refused = read_location(text, "--checkpoint-store");
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().field, "--checkpoint-store");
    EXPECT_NE(refused.error().remedy, "");
  }
  const auto endless = read_location("s3://bucket?region=" + std::string(4000, '\xff'), "url");
  ASSERT_FALSE(endless.ok());
  EXPECT_LT(endless.error().message.size(), 100u) << "what was given is not said again";
}

TEST(Location, AnObjectIsItsKeyInTheWholeBucket) {
  const auto place = read_object("s3://data/web/a.bin?endpoint=http://h:9000&region=eu", "url");
  ASSERT_TRUE(place.ok()) << to_string(place.error());
  EXPECT_EQ(place->key, "web/a.bin");
  EXPECT_EQ(place->location.prefix, "");
  EXPECT_EQ(place->location.bucket, "data");
  EXPECT_EQ(place->location.endpoint, "http://h:9000");
  EXPECT_TRUE(is_object("s3://data/a"));
  EXPECT_FALSE(is_object("https://data/a"));
  for (const char* text : {"s3://data", "s3://data/", "s3://data/web/", "s3://data/web/?region=eu",
                           "s3://data/a b", "https://data/a"}) {
    const auto refused = read_object(text, "url");
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().field, "url");
  }
}

}  // namespace
}  // namespace shoal::objects
