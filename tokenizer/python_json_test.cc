#include "tokenizer/python_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::tokenizer {
namespace {

using testing::HasSubstr;

std::string strict(std::string_view text) { return strict_json(text, "null"); }

TEST(StrictJson, LeavesJsonAsItIs) {
  for (const char* text :
       {R"({"a": [1, -2.5e3, 1e-999, true, false, null, "x\"\\ny"]})",
        R"("\ud83d\ude00 \u0041 NaN Infinity")", "", " ", R"({"NaN": "-Infinity"})"}) {
    EXPECT_EQ(strict(text), text);
  }
}

TEST(StrictJson, ReplacesNumbersThatAreNotFinite) {
  EXPECT_EQ(strict(R"({"a": NaN, "b": [-Infinity, Infinity], "c": 1e999, "d": -1E+400})"),
            R"({"a": null, "b": [null, null], "c": null, "d": null})");
  EXPECT_EQ(strict(std::string(400, '9')), "null");
  EXPECT_EQ(strict_json("[NaN,\n1]", "\"x\""), "[\"x\",\n1]");
}

TEST(StrictJson, ReplacesHalvesOfSurrogatePairs) {
  EXPECT_EQ(strict(R"("half \ud83d here")"), R"("half \ufffd here")");
  EXPECT_EQ(strict(R"("\ude00\ud83d")"), R"("\ufffd\ufffd")");
  EXPECT_EQ(strict(R"("\ud83d\ud83d\ude00")"), R"("\ufffd\ud83d\ude00")");
  EXPECT_EQ(strict(R"("\\ud83d")"), R"("\\ud83d")") << "a backslash, no escape";
}

TEST(StrictJson, TextThatEndsAnywhereIsCopied) {
  const std::string text = R"(["a\ud83d\ude00", -Infinity])";
  for (std::size_t end = 0; end < text.size(); ++end) {
    EXPECT_FALSE(nlohmann::json::accept(strict(text.substr(0, end)))) << end;
  }
}

TEST(PythonJson, IsRead) {
  const auto json = parse_python_json("\xEF\xBB\xBF{\r\n\"a\": 1, \"a\": 2, \"b\": \"\\ud83d\"}");
  ASSERT_TRUE(json.ok()) << to_string(json.error());
  EXPECT_EQ(json->at("a"), 2) << "the last value counts";
  EXPECT_EQ(json->at("b"), "\xEF\xBF\xBD");
}

TEST(PythonJson, ANumberThatIsNotFiniteIsNoNumber) {
  const auto json = parse_python_json(R"({"a": Infinity, "b": 1e999, "c": 3})");
  ASSERT_TRUE(json.ok()) << to_string(json.error());
  EXPECT_EQ(json->at("a"), std::string(kNotFinite));
  EXPECT_EQ(json->at("b"), std::string(kNotFinite));
  EXPECT_EQ(json->at("c"), 3);
}

TEST(PythonJson, OtherTextIsRefusedWithItsLine) {
  const auto refused = [](std::string_view text) {
    const auto json = parse_python_json(text);
    EXPECT_FALSE(json.ok()) << text;
    return json.ok() ? "" : json.error().message;
  };
  EXPECT_EQ(refused("{\n\"a\": NaN,\n\"b\": oops}"), "is not JSON at line 3");
  EXPECT_EQ(refused("{\"a\": 1,}"), "is not JSON at line 1");
  EXPECT_EQ(refused("{\"a\": \"\xFF\"}"), "is not JSON at line 1");
  EXPECT_EQ(refused("{} {}"), "is not JSON at line 1");
  EXPECT_EQ(refused(""), "is empty");
  EXPECT_EQ(refused(" \n"), "is empty");
  EXPECT_EQ(refused(std::string("\xFF\xFE{\0}\0", 6)), "is UTF-16, not UTF-8");
  EXPECT_THAT(refused(std::string(100'000, '[')), HasSubstr("nested deeper than 128 levels"));
  EXPECT_THAT(refused("NaNo"), HasSubstr("is not JSON"));
}

TEST(PythonJson, BracketsInStringsAreNoNesting) {
  const std::string text = "{\"a\": \"" + std::string(1000, '[') + "\\\"{\"}";
  EXPECT_TRUE(parse_python_json(text).ok());
}

}  // namespace
}  // namespace shoal::tokenizer
