#include "objects/answers.h"

#include <gmock/gmock.h>

namespace shoal::objects {
namespace {

TEST(Answers, AListOfObjectsHasItsNextPage) {
  const auto page = read_objects(
      "<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
      "<Contents><Key>a&amp;b</Key><Size>5</Size><ETag>\"e\"</ETag></Contents></ListBucketResult>");
  ASSERT_TRUE(page.ok());
  ASSERT_EQ(page->objects.size(), 1u);
  EXPECT_EQ(page->objects[0].key, "a&b");
  EXPECT_EQ(page->objects[0].size, Bytes(5));
  EXPECT_EQ(page->next, "t");
}

TEST(Answers, OtherTextIsNoAnswer) {
  for (const char* text :
       {"", "x", "<html/>", "<ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>"}) {
    const auto page = read_objects(text);
    ASSERT_FALSE(page.ok()) << text;
    EXPECT_EQ(page.error().code, Code::kIncompatible);
  }
  EXPECT_FALSE(read_parts("<ListPartsResult><Part><PartNumber>0</PartNumber><Size>1</Size>"
                          "<ETag>e</ETag></Part></ListPartsResult>")
                   .ok());
  EXPECT_FALSE(read_upload_id("<InitiateMultipartUploadResult/>").ok());
  const std::string deep(1'000'000, '<');
  EXPECT_FALSE(read_objects(deep).ok());
}

TEST(Answers, AnErrorInsteadOfACompletionIsOne) {
  EXPECT_TRUE(read_completed("<CompleteMultipartUploadResult/>").ok());
  const Status failed =
      read_completed("<Error><Code>InternalError</Code><Message>again</Message></Error>");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, Code::kUnavailable);
  EXPECT_THAT(failed.error().message, ::testing::HasSubstr("InternalError: again"));
  EXPECT_EQ(completion({{1, "\"a\""}}),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>"
            "</CompleteMultipartUpload>");
}

}  // namespace
}  // namespace shoal::objects
