// What api/openapi.json says of answers follows from their lists of fields, and what the page takes
// them for (web/src/api_types.ts) from api/openapi.json. SHOAL_REWRITE_GOLDENS=1 rewrites both;
// descriptions and the schemas without a list stay as they were written by hand.
#include "coordinator/service/http/answers/answer_schema_test_util.h"
#include "coordinator/service/http/answers/page_types_test_util.h"
#include "proto/openapi_test_util.h"

namespace shoal::coordinator::rest {
namespace {

const std::string kFolder = SHOAL_SOURCE_FOLDER, kDescription = kFolder + "/api/openapi.json";

TEST(AnswerSchema, IsTheOneOfTheDescribedApi) {
  Json document = Json::parse(text_of_file(kDescription));
  Json& schemas = document["components"]["schemas"];
  const Json answers = testing::answer_schemas();
  for (const auto& [name, wanted] : answers.items()) {
    schemas[name] = bring_in(wanted, schemas.value(name, Json::object()));
  }
  expect_committed(kDescription, document.dump(2) + "\n");
}

TEST(AnswerSchema, PageHasTheTypesOfTheDescribedApi) {
  const Json document = Json::parse(text_of_file(kDescription));
  expect_committed(kFolder + "/web/src/api_types.ts",
                   testing::page_types(document["components"]["schemas"]));
}

struct Stay {
  AgentId guest;
  std::optional<Severity> complaint;
  std::vector<double> bills;
  Instant left_at;
  double rating = 0;
};
constexpr auto fields_of(Of<Stay>) {
  using T = Stay;
  return fields(field<&T::guest>(), field<&T::complaint>(added_later()),
                field<&T::bills>(any_number()), field<&T::left_at>(or_none()),
                field<&T::rating>(or_none()));
}

TEST(AnswerSchema, SaysTypesWordsAndWhatMayBeNull) {
  const Json schema = testing::object_schema<Stay>();
  const Json& properties = schema["properties"];
  EXPECT_EQ(properties["guest"], (Json{{"type", "string"}, {"pattern", "^agt_[0-9]+$"}}));
  EXPECT_EQ(properties["complaint"], (Json{{"type", {"string", "null"}},
                                           {"enum", {"info", "warning", "error", nullptr}},
                                           {"x-added-later", true}}));
  EXPECT_EQ(properties["bills"],
            (Json{{"type", "array"}, {"items", {{"type", {"number", "null"}}}}}));
  EXPECT_EQ(properties["left_at"]["type"], (Json{"string", "null"}));
  EXPECT_EQ(schema["required"].size(), 5u);
  EXPECT_EQ(testing::page_types({{"Stay", schema}}), std::string(testing::kPageTypesHead) + R"(
export interface Stay {
  guest: string;
  complaint?: 'info' | 'warning' | 'error' | null;
  bills: (number | null)[];
  left_at: string | null;
  rating: number | null;
}
)");
}

TEST(AnswerSchema, JsonIsNullWhereNothingIsKnown) {
  const Json unknown = answer_json(Stay{.guest = AgentId(3), .bills = {1.5, NAN}});
  EXPECT_EQ(unknown, (Json{{"guest", "agt_3"},
                           {"complaint", nullptr},
                           {"bills", {1.5, nullptr}},
                           {"left_at", nullptr},
                           {"rating", nullptr}}));
  const Json known = answer_json(
      Stay{AgentId(3), Severity::kWarning, {}, Instant{1'700'000'000'000'000'000}, 4.5});
  EXPECT_EQ(known, (Json{{"guest", "agt_3"},
                         {"complaint", "warning"},
                         {"bills", Json::array()},
                         {"left_at", "2023-11-14T22:13:20.000Z"},
                         {"rating", 4.5}}));
}

}  // namespace
}  // namespace shoal::coordinator::rest
