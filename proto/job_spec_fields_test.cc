// What api/openapi.json says of a job's fields is what the reader accepts. SHOAL_REWRITE_GOLDENS=1
// rewrites types, words and defaults; descriptions and patterns stay as they were written by
// hand.
#include "proto/job_spec_fields.h"

#include <gtest/gtest.h>

#include "proto/openapi_test_util.h"

namespace shoal::proto {
namespace {

using Json = nlohmann::ordered_json;

TEST(JobSpecFields, AreThoseOfTheDescribedApi) {
  Json document = Json::parse(text_of_file(SHOAL_OPENAPI));
  Json& described = document["components"]["schemas"]["JobSpec"];
  described["properties"] =
      bring_in({{"properties", spec_schema()}}, {{"properties", described["properties"]}})
          .at("properties");
  expect_committed(SHOAL_OPENAPI, document.dump(2) + "\n");
}

TEST(JobSpecFields, SchemaSaysTypeWordsAndDefault) {
  const Json schema = spec_schema();
  EXPECT_EQ(schema["train"]["properties"]["lr"], (Json{{"type", "number"}, {"default", 0.001}}));
  EXPECT_EQ(schema["swarm"]["properties"]["recompute"],
            (Json{{"type", "string"}, {"enum", {"keep", "recompute"}}, {"default", "keep"}}));
  EXPECT_EQ(schema["sync"]["properties"]["outer"]["properties"]["momentum"]["default"], 0.5);
  EXPECT_FALSE(schema["train"]["properties"].contains("beta1"));
  EXPECT_EQ(schema["train"]["properties"]["betas"]["minItems"], 2);
}

}  // namespace
}  // namespace shoal::proto
