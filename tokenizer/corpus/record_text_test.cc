#include "tokenizer/corpus/record_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::corpus {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string text(const std::string& record, const std::string& field) {
  const auto found = FieldPath(field).text_of(record);
  EXPECT_TRUE(found.ok()) << to_string(found.error());
  return found.ok() ? *found : "";
}
std::string refused(const std::string& record, const std::string& field) {
  const auto found = FieldPath(field).text_of(record);
  EXPECT_FALSE(found.ok()) << record;
  return found.ok() ? "" : found.error().message;
}

TEST(RecordText, IsTheStringOfTheField) {
  EXPECT_EQ(text(R"({"id": 1, "text": "a\nb", "x": {"text": "no"}})", "text"), "a\nb");
  EXPECT_EQ(text(R"({"x": {"text": "no"}, "text": ""})", "text"), "");
  EXPECT_EQ(text("{\"text\": \"a\\u0000b\"}", "text"), std::string("a\0b", 3));
}

TEST(RecordText, APathLeadsToNestedFields) {
  const std::string chat =
      R"({"meta": {"text": "inner"}, "messages": [{"role": "user", "content": "hi"},
          {"content": "bye"}, [["deep"]]], "content": "outer"})";
  EXPECT_EQ(text(chat, "meta.text"), "inner");
  EXPECT_EQ(text(chat, "messages[0].content"), "hi");
  EXPECT_EQ(text(chat, "messages[1].content"), "bye");
  EXPECT_EQ(text(chat, "messages[2][0][0]"), "deep");
  EXPECT_EQ(text(R"([[0, "a"], "b"])", "[1]"), "b");
  EXPECT_EQ(text(R"([[0, "a"], "b"])", "[0][1]"), "a");
  EXPECT_EQ(text(R"([{"a": "b"}])", "[0].a"), "b");
}

TEST(RecordText, AKeyWrittenLikeThePathGoesBeforeIt) {
  EXPECT_EQ(text(R"({"a.b": "key", "a": {"b": "path"}})", "a.b"), "key");
  EXPECT_EQ(text(R"({"a": {"b": "path"}, "a.b": "key"})", "a.b"), "key");
  EXPECT_EQ(text(R"({"x": {"a.b": "no"}, "a": {"b": "path"}})", "a.b"), "path");
  for (const char* odd :
       {"a[", "a..b", ".a", "[x]", "[-1]", "a[1]b", "[99999999999999999999]", ""}) {
    EXPECT_EQ(text("{\"" + std::string(odd) + "\": \"key\"}", odd), "key") << "is no path";
  }
}

TEST(RecordText, OfAKeyThatIsThereTwiceTheLastCounts) {
  EXPECT_EQ(text(R"({"t": "one", "t": "two"})", "t"), "two");
  EXPECT_THAT(refused(R"({"t": "one", "t": null})", "t"), HasSubstr("it is null"));
  EXPECT_THAT(refused(R"({"a": {"t": "one"}, "a": {}})", "a.t"), HasSubstr("no string 'a.t'"));
}

TEST(RecordText, WhatIsNoStringIsNamed) {
  EXPECT_EQ(refused(R"({"id": 99})", "t"), "the record has no string 't'");
  EXPECT_EQ(refused(R"({"t": null})", "t"), "the record has no string 't': it is null");
  EXPECT_THAT(refused(R"({"t": 1.5})", "t"), HasSubstr("it is a number"));
  EXPECT_THAT(refused(R"({"t": false})", "t"), HasSubstr("it is true or false"));
  EXPECT_THAT(refused(R"({"t": ["x"]})", "t"), HasSubstr("it is an array"));
  EXPECT_THAT(refused(R"({"t": {"t": "x"}})", "t"), HasSubstr("it is an object"));
  EXPECT_THAT(refused(R"({"t": ["x"]})", "t[1]"), HasSubstr("no string 't[1]'"));
  EXPECT_THAT(refused(R"({"t": {"0": "x"}})", "t[0]"), HasSubstr("no string 't[0]'"));
  EXPECT_THAT(refused(R"("text")", "t"), HasSubstr("no string 't'"));
  EXPECT_THAT(refused("NaN", "t"), HasSubstr("no string 't'"));
}

// Python's json module writes and reads all of these.
TEST(RecordText, JsonOfPythonIsRead) {
  EXPECT_EQ(text(R"({"score": NaN, "t": "a"})", "t"), "a");
  EXPECT_EQ(text(R"({"t": "a", "p": [-Infinity, 1e999]})", "t"), "a");
  EXPECT_EQ(text(R"({"t": "half a pair \ud83d here"})", "t"), "half a pair \xEF\xBF\xBD here");
  EXPECT_EQ(text(R"({"n": 123456789012345678901234567890, "t": "a"})", "t"), "a");
  EXPECT_THAT(refused(R"({"t": NaN})", "t"), HasSubstr("it is null"));
}

TEST(RecordText, OtherTextIsRefused) {
  for (const char* bad : {"", "{\"t\"", "{\"t\": \"a\"} x", "{'t': 'a'}", "{\"t\": \"a\",}", "oops",
                          "{\"t\": \"a\nb\"}"}) {
    EXPECT_EQ(refused(bad, "t"), "the record is not JSON") << bad;
  }
  EXPECT_EQ(refused("{\"t\": \"\xFF\"}", "t"), "the record is not UTF-8 at its byte 7");
  EXPECT_EQ(refused("{\"t\": \"\xED\xA0\x80\"}", "t"), "the record is not UTF-8 at its byte 7");
  const auto remedy = FieldPath("t").text_of("{}").error().remedy;
  EXPECT_THAT(remedy, AllOf(HasSubstr("messages[0].content"), HasSubstr("--skip-bad-lines")));
}

TEST(RecordText, AnyDepthIsRead) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_EQ(text("{\"deep\": " + deep + ", \"t\": \"a\"}", "t"), "a");
  EXPECT_EQ(refused(std::string(1'000'000, '['), "t"), "the record is not JSON");
}

}  // namespace
}  // namespace shoal::corpus
