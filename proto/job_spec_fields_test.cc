// What api/openapi.json says of a job's fields is what the reader accepts. SHOAL_REWRITE_GOLDENS=1
// writes types, words and defaults anew; descriptions and patterns stay as they were written by
// hand.
#include "proto/job_spec_fields.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include <gtest/gtest.h>

namespace shoal::proto {
namespace {

using Json = nlohmann::ordered_json;

// What is written by hand comes first, then what follows from the lists.
Json bring_in(const Json& properties, const Json& described) {
  constexpr std::string_view kDerived[] = {"type",     "enum",     "default",   "items",
                                           "minItems", "maxItems", "properties"};
  Json result = Json::object();
  for (const auto& [key, wanted] : properties.items()) {
    const Json before = described.value(key, Json::object());
    Json& entry = result[key] = Json::object();
    for (const auto& [name, value] : before.items()) {
      if (std::ranges::find(kDerived, name) == std::end(kDerived)) entry[name] = value;
    }
    for (const auto& [name, value] : wanted.items()) {
      entry[name] =
          name == "properties" ? bring_in(value, before.value(name, Json::object())) : value;
    }
  }
  return result;
}

TEST(JobSpecFields, AreThoseOfTheDescribedApi) {
  std::stringstream file;
  file << std::ifstream(SHOAL_OPENAPI).rdbuf();
  Json document = Json::parse(file.str());
  Json& described = document["components"]["schemas"]["JobSpec"]["properties"];
  described = bring_in(spec_schema(), described);
  const std::string wanted = document.dump(2) + "\n";
  if (std::getenv("SHOAL_REWRITE_GOLDENS") != nullptr) std::ofstream(SHOAL_OPENAPI) << wanted;
  EXPECT_TRUE(wanted == file.str())
      << "SHOAL_REWRITE_GOLDENS=1 writes " << SHOAL_OPENAPI << " anew";
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
