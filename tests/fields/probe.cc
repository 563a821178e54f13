// A new option of a job and a new field of its record, seen in everything that goes over lists of
// fields. Built by field_places.py, in a copy of the sources that has train.cooldown and
// JobRecord::naps; no source beside the three places of each may know of them.
#include <set>

#include <gtest/gtest.h>

#include "coordinator/core/state/state.h"
#include "coordinator/service/http/views.h"
#include "coordinator/store/json_fields.h"
#include "coordinator/store/migrator.h"
#include "coordinator/store/rows.h"
#include "coordinator/store/store_test_util.h"
#include "proto/job_spec_text.h"
#include "proto/openapi_test_util.h"

namespace shoal::coordinator {
namespace {

constexpr const char* kText = R"(name = "a"
[data]
train = "/a.txt"
[train]
cooldown = )";

const std::string kFolder = SHOAL_SOURCE_FOLDER;

nlohmann::json described(const char* schema) {
  const auto document = nlohmann::json::parse(text_of_file(kFolder + "/api/openapi.json"));
  return document["components"]["schemas"][schema]["properties"];
}

bool page_has(const std::string& line) {
  return text_of_file(kFolder + "/web/src/api_types.ts").find(line) != std::string::npos;
}

JobRecord job_with(std::int64_t cooldown, std::int64_t naps) {
  JobRecord job{.id = JobId(1)};
  const auto read = proto::read_spec_toml(kText + std::to_string(cooldown));
  EXPECT_FALSE(read.problems);
  job.spec = read.spec;
  job.naps = naps;
  return job;
}

Digest digest_with(const JobRecord& job) {
  DurableState state;
  state.jobs.put(job.id, job);
  return state.digest();
}

TEST(NewOption, IsReadAndWritten) {
  const auto read = proto::read_spec_toml(std::string(kText) + "7");
  ASSERT_FALSE(read.problems) << read.problems->summary;
  const auto json = proto::spec_to_json(read.spec);
  EXPECT_EQ(json["train"]["cooldown"], 7);
  EXPECT_EQ(proto::read_kept_spec(json.dump()).spec, read.spec);
  EXPECT_EQ(proto::spec_to_json(JobSpec())["train"]["cooldown"], 3) << "its default";
}

TEST(NewOption, HasItsRule) {
  const auto read = proto::read_spec_toml(std::string(kText) + "5000");
  ASSERT_TRUE(read.problems);
  ASSERT_EQ(read.problems->fields.size(), 1u);
  EXPECT_EQ(read.problems->fields[0].pointer, "/train/cooldown");
}

TEST(NewOption, CountsInTheDigest) {
  EXPECT_FALSE(digest_with(job_with(7, 0)) == digest_with(job_with(8, 0)));
}

TEST(NewOption, IsDescribed) {
  const auto option = described("JobSpec")["train"]["properties"]["cooldown"];
  EXPECT_EQ(option, (nlohmann::json{{"type", "integer"}, {"default", 3}}));
  EXPECT_TRUE(page_has("    cooldown: number;\n"));
  EXPECT_NE(text_of_file(kFolder + "/docs/job_file.md").find("`train.cooldown`"),
            std::string::npos);
}

TEST(NewField, CountsInTheDigest) {
  EXPECT_FALSE(digest_with(job_with(7, 1)) == digest_with(job_with(7, 2)));
}

TEST(NewField, IsStored) {
  const TemporaryFolder folder;
  auto database =
      Database::open(folder.path() + "/state.db", OpenMode::kReadWrite, Durability::kFull);
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(migrate(**database, embedded_migrations(), folder.path() + "/state.pre").ok());
  const JobRecord job = job_with(7, 12);
  ASSERT_TRUE(write_record(**database, job).ok());
  EXPECT_EQ(*(*database)->integer("SELECT naps FROM jobs"), 12);
  auto statement = (*database)->prepare(select_sql<JobRecord>());
  ASSERT_TRUE(statement.ok());
  const auto jobs = read_all<JobRecord>(*statement);
  ASSERT_TRUE(jobs.ok());
  EXPECT_EQ(*jobs, std::vector<JobRecord>{job});
}

TEST(NewField, IsDrawnForTests) {
  RandomRecords random(1);
  std::set<std::int64_t> drawn;
  for (std::uint64_t id = 1; id <= 10; ++id) drawn.insert(random.job(id).naps);
  EXPECT_GT(drawn.size(), 5u);
}

TEST(NewField, IsAnsweredAndDescribed) {
  EXPECT_EQ(rest::job_json(job_with(7, 12), LiveView())["status"]["naps"], 12);
  EXPECT_EQ(described("JobStatus")["naps"], (nlohmann::json{{"type", "integer"}}));
  EXPECT_TRUE(page_has("  naps: number;\n"));
}

}  // namespace
}  // namespace shoal::coordinator
