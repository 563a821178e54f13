// The dashboard as a browser gets it: the page at every path of its router, assets with their
// caching, compressed or not as asked, and no page where the API, the metrics or nothing at all is.
#include "coordinator/service/http/routes/dashboard.h"

#include <gmock/gmock.h>

#include "coordinator/service/http/server_test_util.h"

namespace shoal::coordinator::rest {
namespace {

using ::testing::HasSubstr;

class Dashboard : public testing::ServerFixture {};

// The path of the first asset that the page names.
std::string first_asset(const std::string& page) {
  const std::size_t from = page.find("/assets/");
  return page.substr(from, page.find('"', from) - from);
}

TEST_F(Dashboard, IsAtEveryPathOfItsRouter) {
  start();
  const auto page = get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(page.header("cache-control"), "no-cache");
  EXPECT_THAT(page.header("content-security-policy"), HasSubstr("default-src 'self'"));
  EXPECT_THAT(page.body, HasSubstr("<!doctype html>"));
  for (const char* path : {"/jobs", "/jobs?phase=training&q=x", "/jobs/job_7", "/jobs/a/rounds",
                           "/agents", "/agents/agt_1", "/join", "/network", "/checkpoints/ckpt_5",
                           "/events", "/checkpoints", "/?theme=dark"}) {
    const auto same = get(path);
    EXPECT_EQ(same.status, 200) << path;
    EXPECT_EQ(same.body, page.body) << path;
  }
}

TEST_F(Dashboard, DoesNotHideWhatIsNotThere) {
  start();
  expect_problem(get("/nothing"), 404, "not-found");
  expect_problem(get("/api/v1/nothing"), 404, "not-found");
  expect_problem(get("/assets/none.js"), 404, "not-found");
  expect_problem(get("/assets/../index.html"), 404, "not-found");
  EXPECT_EQ(get("/problems/nothing").status, 404);
  EXPECT_EQ(get("/livez").body, "ok\n");
  EXPECT_THAT(get("/metrics").body, HasSubstr("# TYPE"));
}

TEST_F(Dashboard, PageHasNoInlineScriptOrStyle) {
  start();
  const std::string page = get("/").body;
  EXPECT_THAT(page, ::testing::Not(HasSubstr("<style")));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("<script>")));
  EXPECT_THAT(page, ::testing::Not(HasSubstr(" style=")));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("://")));
}

TEST_F(Dashboard, AssetsAreImmutableAndCompressedOnRequest) {
  start();
  const std::string path = first_asset(get("/").body);
  const auto identity = get(path);
  EXPECT_EQ(identity.status, 200);
  EXPECT_THAT(identity.header("cache-control"), HasSubstr("immutable"));
  EXPECT_EQ(identity.header("content-encoding"), "");
  EXPECT_EQ(identity.header("vary"), "Accept-Encoding");
  const auto gzip = get(path, "Accept-Encoding: gzip, deflate, br\r\n");
  EXPECT_EQ(gzip.status, 200);
  EXPECT_EQ(gzip.header("content-encoding"), "gzip");
  EXPECT_EQ(gzip.header("content-type"), identity.header("content-type"));
  EXPECT_THAT(gzip.body, ::testing::StartsWith("\x1f\x8b"));
  EXPECT_LT(gzip.body.size(), identity.body.size());
  EXPECT_NE(gzip.header("etag"), identity.header("etag"));
}

TEST_F(Dashboard, IsNotSentAgainToWhoHasIt) {
  start();
  const std::string tag = get("/").header("etag");
  ASSERT_FALSE(tag.empty());
  EXPECT_EQ(get("/", "If-None-Match: " + tag + "\r\n").status, 304);
  EXPECT_EQ(get("/", "If-None-Match: \"x\", " + tag + "\r\n").status, 304);
  EXPECT_EQ(get("/", "If-None-Match: \"x\"\r\n").status, 200);
}

TEST_F(Dashboard, HoldsEveryFileOnceInBothForms) {
  ASSERT_FALSE(dashboard_files().empty());
  for (const DashboardFile& file : dashboard_files()) {
    EXPECT_FALSE(file.identity.empty()) << file.path;
    EXPECT_FALSE(file.gzip.empty()) << file.path;
    EXPECT_EQ(file.digest.size(), 32u) << file.path;
    EXPECT_EQ(file.path.find("/."), std::string_view::npos) << file.path;
  }
}

TEST(AcceptsGzip, ReadsTheFieldAsRfc9110Does) {
  EXPECT_TRUE(accepts_gzip("gzip"));
  EXPECT_TRUE(accepts_gzip("br, GZIP;q=0.5"));
  EXPECT_TRUE(accepts_gzip("*"));
  EXPECT_FALSE(accepts_gzip(""));
  EXPECT_FALSE(accepts_gzip("br"));
  EXPECT_FALSE(accepts_gzip("gzip;q=0, *"));
  EXPECT_FALSE(accepts_gzip("*, gzip; q=0.0"));
  EXPECT_FALSE(accepts_gzip("x-gzip"));
}

}  // namespace
}  // namespace shoal::coordinator::rest
