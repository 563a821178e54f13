// The parts of the HTTP side that are text only: URLs, cursors, route matching, guards, problems,
// views.
#include <gmock/gmock.h>

#include "base/base64.h"
#include "coordinator/service/http/byte_range.h"
#include "coordinator/service/http/cluster_test_util.h"
#include "coordinator/service/http/guard.h"
#include "coordinator/service/http/problem.h"
#include "coordinator/service/http/router.h"
#include "coordinator/service/http/url.h"
#include "coordinator/service/http/views.h"

namespace shoal::coordinator::rest {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(Url, DecodesEscapesAndRefusesBrokenOnes) {
  EXPECT_EQ(percent_decode("a%2Fb+c", false), "a/b+c");
  EXPECT_EQ(percent_decode("a+b", true), "a b");
  for (const char* bad : {"%", "%2", "%zz", "a%00b"})
    EXPECT_FALSE(percent_decode(bad, false)) << bad;
}

TEST(ByteRange, OneRangeInsideTheFileIsAPart) {
  const auto part = [](std::string_view text, std::int64_t size) {
    const AskedRange range = read_range(text, size);
    EXPECT_EQ(range.kind, AskedRange::kPart) << text;
    return std::pair(range.first, range.length);
  };
  EXPECT_EQ(part("bytes=2-4", 10), std::pair(2l, 3l));
  EXPECT_EQ(part("bytes=2-99", 10), std::pair(2l, 8l));
  EXPECT_EQ(part("bytes=9-", 10), std::pair(9l, 1l));
  EXPECT_EQ(part("bytes=-3", 10), std::pair(7l, 3l));
  EXPECT_EQ(part("bytes=-9223372036854775807", 10), std::pair(0l, 10l));
}

TEST(ByteRange, AllElseIsTheWholeFileOrOutsideOfIt) {
  for (const char* text : {"", "bytes", "bytes=", "bytes=-", "bytes=5-3", "bytes=0-1,4-5",
                           "lines=1-2", "bytes=+1-2", "bytes=1-9223372036854775808", "bytes=--1"}) {
    EXPECT_EQ(read_range(text, 10).kind, AskedRange::kWhole) << text;
  }
  for (const char* text : {"bytes=10-", "bytes=-0", "bytes=9223372036854775807-"}) {
    EXPECT_EQ(read_range(text, 10).kind, AskedRange::kUnsatisfiable) << text;
  }
  EXPECT_EQ(read_range("bytes=0-0", 0).kind, AskedRange::kUnsatisfiable);
}

TEST(Url, SplitsAQuery) {
  Request request;
  ASSERT_TRUE(split_target("/a/b?x=1&y=two%20words&flag&x=2#rest", request));
  EXPECT_EQ(request.path, "/a/b");
  EXPECT_THAT(request.query, ElementsAre(Pair("x", "1"), Pair("y", "two words"), Pair("flag", ""),
                                         Pair("x", "2")));
  EXPECT_EQ(*request.query_value("x"), "2");
  EXPECT_FALSE(split_target("a", request));
  EXPECT_FALSE(split_target("/a?x=%", request));
}

Code cursor_code(const std::string& cursor) {
  Request request;
  request.query.emplace_back("cursor", cursor);
  const auto page = read_page(request, "jobs", false);
  return page.ok() ? Code::kInternal : page.error().code;
}

TEST(Url, ACursorBelongsToItsList) {
  Request request;
  request.query.emplace_back("cursor", make_cursor("jobs", 42));
  EXPECT_EQ(read_page(request, "jobs", false).value().after, 42);
  EXPECT_EQ(cursor_code(make_cursor("rounds", 42)), Code::kIncompatible);
  EXPECT_EQ(cursor_code(base64url("c0:jobs:42")), Code::kIncompatible);
  for (const std::string bad : {"garbage", "***", ""})
    EXPECT_EQ(cursor_code(bad), Code::kInvalidArgument);
  EXPECT_EQ(cursor_code(base64url("c1:jobs:-1")), Code::kInvalidArgument);
}

TEST(Url, EveryNameOfAQueryMustBeKnown) {
  Request request;
  request.query = {{"limit", "1"}, {"color", "red"}};
  EXPECT_EQ(check_query_names(request, {"limit"}).error().field, "/query/color");
  EXPECT_EQ(check_query_names(request, {"limit"}).error().remedy, "it takes limit");
  EXPECT_EQ(check_query_names(request, {}).error().field, "/query/limit");
  EXPECT_TRUE(check_query_names(request, {"limit", "color"}).ok());
}

TEST(Url, AFlagIsTrueOrFalse) {
  const auto flag = [](const char* text) {
    Request request;
    request.query.emplace_back("gone", text);
    return read_flag(request, "gone");
  };
  EXPECT_FALSE(read_flag(Request(), "gone").value());
  for (const char* yes : {"", "true", "1"}) EXPECT_TRUE(flag(yes).value()) << yes;
  for (const char* no : {"false", "0"}) EXPECT_FALSE(flag(no).value()) << no;
  for (const char* bad : {"yes", "2", "True"}) EXPECT_FALSE(flag(bad).ok()) << bad;
}

TEST(Router, MatchesTemplates) {
  std::vector<std::pair<std::string, std::string>> parts;
  EXPECT_TRUE(match_path("/", "/", parts));
  EXPECT_TRUE(match_path("/jobs/{job}/rounds", "/jobs/my%2Djob/rounds", parts));
  EXPECT_THAT(parts, ElementsAre(Pair("job", "my-job")));
  parts.clear();
  EXPECT_TRUE(match_path("/files/{path...}", "/files/a/b.bin", parts));
  EXPECT_THAT(parts, ElementsAre(Pair("path", "a/b.bin")));
  for (const char* path :
       {"/jobs", "/jobs/", "/jobs/x/", "/jobs//rounds", "/jobs/x/rounds/", "/files/"}) {
    EXPECT_FALSE(match_path("/jobs/{job}/rounds", path, parts)) << path;
    EXPECT_FALSE(match_path("/files/{path...}", path, parts)) << path;
  }
}

TEST(Router, EveryRouteHasOneHandler) {
  for (const Route& route : route_table())
    EXPECT_NE(route.answer == nullptr, route.answer_later == nullptr) << route.path;
}

TEST(Guard, LetsInAddressesAndKnownNames) {
  for (const char* host : {"", "127.0.0.1:7070", "[::1]:7070", "localhost", "LocalHost:1",
                           "a.localhost", "192.168.1.5:7070", "node-1:7070"})
    EXPECT_TRUE(host_allowed(host, {"Node-1"})) << host;
  for (const char* host :
       {"evil.example", "evil.example:7070", "localhost.evil.example", "127.0.0.1.evil.example"})
    EXPECT_FALSE(host_allowed(host, {"node-1"})) << host;
}

TEST(Guard, APageOfAnotherOriginMayNotChangeAnything) {
  EXPECT_TRUE(origin_allowed("", "localhost:7070"));
  EXPECT_TRUE(origin_allowed("http://localhost:7070", "localhost:7070"));
  for (const char* origin : {"null", "http://evil.example", "http://localhost:8080"})
    EXPECT_FALSE(origin_allowed(origin, "localhost:7070")) << origin;
}

// A proxy may pass its own name on in Host, or ours.
TEST(Guard, APageOfThePublicUrlMay) {
  const std::string url = "https://shoal.example";
  for (const char* host : {"shoal.example", "127.0.0.1:7070"}) {
    EXPECT_TRUE(origin_allowed("https://Shoal.example", host, url)) << host;
    EXPECT_FALSE(origin_allowed("https://evil.example", host, url)) << host;
  }
  EXPECT_EQ(host_of_origin("https://shoal.example:8443"), "shoal.example");
}

TEST(Guard, NoSecretTravelsInClear) {
  const auto may = [](const Asked& asked) { return check_line(asked).ok(); };
  EXPECT_TRUE(may({.from_this_host = true}));
  EXPECT_FALSE(may({.from_this_host = false}));
  EXPECT_TRUE(may({.from_this_host = false, .over_tls = true}));
  EXPECT_TRUE(may({.from_this_host = false, .clear_allowed = true}));
  EXPECT_TRUE(may({.from_this_host = false, .over_tls = true, .for_proof = true}));
  EXPECT_FALSE(may({.from_this_host = true, .for_proof = true}));
  EXPECT_FALSE(may({.from_this_host = false, .for_proof = true, .clear_allowed = true}));
}

TEST(Guard, ReadsBindAddresses) {
  EXPECT_EQ(parse_bind("127.0.0.1:7070").value().port, 7070);
  EXPECT_EQ(parse_bind("[::1]:0").value().host, "::1");
  EXPECT_TRUE(parse_bind("localhost:0").value().loopback);
  EXPECT_FALSE(parse_bind("0.0.0.0:1").value().loopback);
  for (const char* bad : {"", "7070", ":7070", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999",
                          "host.example:1", "127.0.0.1]:7070", "[127.0.0.1:7070", "[]:7070"}) {
    const auto bind = parse_bind(bad);
    ASSERT_FALSE(bind.ok()) << bad;
    EXPECT_FALSE(bind.error().remedy.empty());
  }
}

TEST(Problem, SaysWhatItIsAndWhenToComeBack) {
  Request request;
  request.path = "/here";
  request.id = "req_1";
  for (int i = 0; i <= static_cast<int>(kLastProblem); ++i) {
    const Response response = problem_response(static_cast<Problem>(i), request, "so it is");
    const ProblemKind& kind = kind_of(static_cast<Problem>(i));
    EXPECT_EQ(response.status, kind.status);
    EXPECT_EQ(response.content_type, "application/problem+json");
    EXPECT_EQ(Json::parse(response.body), (Json{{"type", "/problems/" + std::string(kind.slug)},
                                                {"title", kind.title},
                                                {"status", kind.status},
                                                {"detail", "so it is"},
                                                {"instance", "/here"},
                                                {"code", kind.slug},
                                                {"request_id", "req_1"}}));
    const auto later =
        std::find_if(response.headers.begin(), response.headers.end(),
                     [](const auto& header) { return header.first == "Retry-After"; });
    EXPECT_EQ(later != response.headers.end(), kind.status == 503 || kind.status == 429)
        << kind.slug;
  }
}

TEST(Problem, EachHasAPageOfItsOwn) {
  std::vector<std::string_view> slugs;
  for (int i = 0; i <= static_cast<int>(kLastProblem); ++i) {
    const ProblemKind& kind = kind_of(static_cast<Problem>(i));
    std::string html;
    EXPECT_TRUE(problem_page(kind.slug, html));
    EXPECT_THAT(html, ::testing::HasSubstr(std::string(kind.help)));
    EXPECT_THAT(slugs, ::testing::Not(::testing::Contains(kind.slug)));
    slugs.push_back(kind.slug);
  }
}

TEST(Views, TimesAreUtcWithMilliseconds) {
  EXPECT_EQ(rfc3339(from_unix_ms(0)), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(rfc3339(from_unix_ms(1'800'000'000'123)), "2027-01-15T08:00:00.123Z");
}

// Two replicas, 100 steps, 1000 parameters: each step a ring sends 2 * (1/2) * 4000 bytes per
// replica.
TEST(Views, BytesOfDataParallelAreThoseOfARing) {
  JobRecord job;
  job.spec = testing::small_spec("x");
  EXPECT_EQ(bytes_of_data_parallel(job), std::nullopt);
  job.stages = {{.units = {0, 4}, .value_count = 1000, .anchor = {}, .momentum = {}}};
  job.committed_step = Steps(100);
  job.committed_tokens = Tokens(2 * 100 * job.spec.train.batch * job.spec.model.context);
  EXPECT_EQ(bytes_of_data_parallel(job), 100 * 2 * 4000);
  job.committed_tokens = Tokens(100 * job.spec.train.batch * job.spec.model.context);
  EXPECT_EQ(bytes_of_data_parallel(job), 0);
}

// 60 of the 100 steps were there when it began, taken by whatever number of replicas.
TEST(Views, BytesOfDataParallelAreThoseOfTheJobItself) {
  JobRecord job;
  job.spec = testing::small_spec("x");
  const std::int64_t tokens_per_step = job.spec.train.batch * job.spec.model.context;
  job.spec.train.continue_from = "ckpt_7";
  job.stages = {{.units = {0, 4}, .value_count = 1000, .anchor = {}, .momentum = {}}};
  job.committed_step = Steps(100);
  job.committed_tokens = Tokens((60 * 5 + 40 * 2) * tokens_per_step);
  EXPECT_EQ(bytes_of_data_parallel(job), std::nullopt) << "stored by an older version";
  job.begun_step = Steps(60);
  job.begun_tokens = Tokens(60 * 5 * tokens_per_step);
  EXPECT_EQ(bytes_of_data_parallel(job), 40 * 2 * 4000);
  job.begun_step = job.committed_step, job.begun_tokens = job.committed_tokens;
  EXPECT_EQ(bytes_of_data_parallel(job), std::nullopt) << "it has trained nothing yet";
}

// The other job ended with a fifth round of one step.
TEST(Views, RoundsInAllAreThoseOfTheOtherJobAndTheRest) {
  JobRecord job;
  job.id = JobId(2);
  job.spec = testing::small_spec("x");
  job.spec.train.continue_from = "ckpt_7";
  const std::int64_t every = job.spec.sync.every.count();
  ASSERT_GT(every, 1);
  job.spec.train.steps = Steps(9 * every);
  job.begun_step = job.committed_step = Steps(4 * every + 1);
  job.committed_round = 5;
  const auto total = [&] {
    return Json::parse(to_text(job_json(job, LiveView())))["status"]["progress"]["rounds_total"];
  };
  EXPECT_EQ(total(), 10);
  job.committed_step = job.spec.train.steps, job.committed_round = 10;
  EXPECT_EQ(total(), 10);
}

TEST(Views, UnknownNumbersAreNull) {
  JobRecord job;
  job.id = JobId(1);
  job.spec = testing::small_spec("x");
  job.phase = JobPhase::kTraining;
  LiveView live;
  live.replicas.put(ReplicaId(1), {{.key = {job.id, 0, 1}}, Instant{}});
  const Json json = Json::parse(to_text(job_json(job, live)));
  for (const char* name :
       {"train_loss", "validation_loss", "bytes_ddp", "started_at", "anchor_digest"})
    EXPECT_TRUE(json["status"][name].is_null()) << name;
  EXPECT_TRUE(json["status"]["progress"]["tokens_per_second"].is_null());
}

TEST(Views, AStageShowsTheNewestRoundThatACopyHolds) {
  JobRecord job;
  job.id = JobId(1);
  job.spec = testing::small_spec("x");
  job.stages.resize(2);
  LiveView live;
  live.copies.put(ReplicaId(21), {job.id, 1, ReplicaId(8), 4});
  live.copies.put(ReplicaId(22), {job.id, 1, ReplicaId(9), 5});
  live.copies.put(ReplicaId(23), {JobId(2), 1, ReplicaId(7), 9});
  live.copies.put(ReplicaId(24), {job.id, 0, ReplicaId(6), -1});
  const Json stages = Json::parse(to_text(job_json(job, live)))["status"]["stages"];
  EXPECT_EQ(stages[1]["copies"], 2);
  EXPECT_EQ(stages[1]["copied_round"], 5);
  EXPECT_EQ(stages[0]["copies"], 1);
  EXPECT_TRUE(stages[0]["copied_round"].is_null()) << "it is on its way";

  ReplicaRecord keeper{.id = ReplicaId(8), .job = job.id};
  keeper.copies = {{ReplicaId(21), 1}};
  const Json kept = Json::parse(to_text(replica_json(keeper, live)))["copies"];
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0]["stage"], 1);
  EXPECT_EQ(kept[0]["round"], 4);
}

TEST(Views, AJobThatHoldsNothingMakesNoProgress) {
  JobRecord job;
  job.id = JobId(1);
  job.spec = testing::small_spec("x");
  LiveView live;
  live.replicas.put(ReplicaId(1),
                    {{.key = {job.id, 0, 1}, .step = Steps(3), .tokens = Tokens(60)}, {}});
  live.tokens_per_s.put(job.id, 5);
  const auto progress_in = [&](JobPhase phase) {
    job.phase = phase;
    return Json::parse(to_text(job_json(job, live)))["status"]["progress"];
  };
  EXPECT_EQ(progress_in(JobPhase::kTraining)["tokens_per_second"], 5);
  EXPECT_EQ(progress_in(JobPhase::kTraining)["inner_step"], 3);
  for (const JobPhase phase : {JobPhase::kPaused, JobPhase::kQueued, JobPhase::kFailed}) {
    const Json progress = progress_in(phase);
    EXPECT_TRUE(progress["tokens_per_second"].is_null());
    EXPECT_EQ(progress["inner_step"], 0);
    EXPECT_EQ(progress["tokens"], 0);
    EXPECT_EQ(progress["replicas_training"], 0);
  }
}

}  // namespace
}  // namespace shoal::coordinator::rest
