#include "objects/http.h"

#include <gmock/gmock.h>

#include "cli/server_test_util.h"
#include "threads/environment_test_util.h"
#include "threads/mutex.h"

namespace shoal::objects {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Patience kHasty{.connect = seconds(2),
                          .silence = seconds(1),
                          .tries = 3,
                          .pause_first = milliseconds(1),
                          .pause_max = milliseconds(2)};

std::string answer(const std::string& head, const std::string& body, std::size_t length) {
  return "HTTP/1.1 " + head + "\r\nContent-Length: " + std::to_string(length) +
         "\r\nConnection: close\r\n\r\n" + body;
}
std::string part(const std::string& whole, std::size_t from, std::size_t size,
                 const std::string& more = "") {
  return answer("206 Partial\r\n" + more + "Content-Range: bytes " + std::to_string(from) + "-" +
                    std::to_string(from + size - 1) + "/" + std::to_string(whole.size()),
                whole.substr(from, size), size);
}

// Answers each request with the next of a list, and the last one again.
class HttpTest : public ::testing::Test {
 protected:
  std::string next(const std::string& request) {
    const MutexLock lock(mutex_);
    requests_.push_back(request);
    const std::size_t at = std::min(requests_.size(), answers_.size()) - 1;
    return answers_.at(at);
  }
  void answers(std::vector<std::string> all) {
    const MutexLock lock(mutex_);
    answers_ = std::move(all);
  }
  std::vector<std::string> requests() {
    const MutexLock lock(mutex_);
    return requests_;
  }
  Result<std::string> get(Client::Range range = {}) {
    std::string text;
    const auto got = client_.get(
        Request{.url = server_.address() + "/x?secret=1", .headers = {{"Authorization", "mine"}}},
        range, [&](std::span<const std::byte> bytes) {
          text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return true;
        });
    if (!got.ok()) return got.error();
    return text;
  }

  Mutex mutex_;
  std::vector<std::string> answers_ SHOAL_GUARDED_BY(mutex_), requests_ SHOAL_GUARDED_BY(mutex_);
  cli::ScriptedServer server_{[this](const std::string& request) { return next(request); }};
  int retries_ = 0;
  Client client_{
      {.reach = {.private_allowed = true}, .patience = kHasty, .on_retry = [this] { ++retries_; }}};
};

TEST_F(HttpTest, AGetThatBreaksGoesOnBehindWhatCame) {
  answers({answer("200 OK", "0123", 10), part("0123456789", 4, 6)});
  const auto got = get();
  ASSERT_TRUE(got.ok()) << to_string(got.error());
  EXPECT_EQ(*got, "0123456789");
  EXPECT_THAT(requests().at(0), Not(HasSubstr("Range:")));
  EXPECT_THAT(requests().at(1), HasSubstr("Range: bytes=4-\r\n"));
  EXPECT_EQ(retries_, 1);
}

TEST_F(HttpTest, TheEnvironmentNamesNoProxy) {
  const ScopedEnvironment environment(dead_proxies());
  answers({answer("200 OK", "0123", 4)});
  const auto got = get();
  ASSERT_TRUE(got.ok()) << to_string(got.error());
  EXPECT_THAT(requests().at(0), testing::StartsWith("GET /x?"));
}

TEST_F(HttpTest, AProxyThatIsGivenLooksNamesUp) {
  const ScopedEnvironment environment({{"no_proxy", "*"}, {"NO_PROXY", "*"}});
  answers({answer("200 OK", "0123", 4)});
  const Client client(
      {.reach = {.clear_allowed = true, .proxy = server_.address()}, .patience = kHasty});
  std::string text;
  const auto got = client.get(
      Request{.url = "http://store.invalid/x"}, {}, [&](std::span<const std::byte> bytes) {
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return true;
      });
  ASSERT_TRUE(got.ok()) << to_string(got.error());
  EXPECT_EQ(text, "0123");
  EXPECT_THAT(requests().at(0), testing::StartsWith("GET http://store.invalid/x HTTP/1.1"));
}

TEST_F(HttpTest, ARangeIsWhatWasAskedForOrAnError) {
  answers({part("0123456789", 2, 3)});
  EXPECT_EQ(get({.from = Bytes(2), .size = Bytes(3)}).value(), "234");
  answers({part("0123456789", 3, 3)});
  EXPECT_EQ(get({.from = Bytes(2), .size = Bytes(3)}).error().code, Code::kDataLoss);
  answers({answer("200 OK", "0123456789", 10)});  // it knows no ranges
  EXPECT_EQ(get({.from = Bytes(2), .size = Bytes(3)}).error().code, Code::kIncompatible);
  EXPECT_EQ(get({.from = Bytes(0), .size = Bytes(3)}).value(), "012");
  answers({answer("416 Range", "", 0)});
  EXPECT_EQ(get({.from = Bytes(20), .size = Bytes(3)}).error().code, Code::kDataLoss);
}

TEST_F(HttpTest, AServerThatLiesAboutALengthIsFoundOut) {
  answers({answer("200 OK", "01234", 5)});
  const auto got = get({.whole = Bytes(10)});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Code::kDataLoss);
  EXPECT_THAT(got.error().message, HasSubstr("5 bytes instead of 10"));
  EXPECT_NE(got.error().remedy, "");
  EXPECT_THAT(got.error().message, Not(HasSubstr("secret")));
  answers({part("01234", 0, 5)});  // asked for eight bytes, and ends in order
  EXPECT_EQ(get({.size = Bytes(8)}).error().code, Code::kDataLoss);
}

TEST_F(HttpTest, AFileThatChangesWhileItIsReadIsFoundOut) {
  answers(
      {answer("200 OK\r\nETag: \"a\"", "0123", 10), part("abcdefghij", 4, 6, "ETag: \"b\"\r\n")});
  const auto got = get();
  ASSERT_FALSE(got.ok());
  EXPECT_THAT(got.error().message, HasSubstr("changed while it was read"));
}

TEST_F(HttpTest, OnlyWhatMayPassIsTriedAgain) {
  answers({answer("503 Busy", "", 0), answer("200 OK", "ok", 2)});
  EXPECT_EQ(get().value(), "ok");
  answers({answer("503 Busy", "", 0)});
  EXPECT_EQ(get().error().code, Code::kUnavailable);
  EXPECT_EQ(requests().size(), 2u + 3u);
  answers({answer("403 No", "", 0)});
  EXPECT_EQ(get().error().code, Code::kPermissionDenied);
  EXPECT_EQ(requests().size(), 6u);
  answers({answer("404 No", "", 0)});
  EXPECT_EQ(get().error().code, Code::kNotFound);
  EXPECT_NE(get().error().remedy, "");
}

TEST_F(HttpTest, ARedirectToAPrivateAddressIsRefused) {
  const std::string moved = answer("302 Found\r\nLocation: /y", "", 0);
  answers({moved, moved, answer("200 OK", "ok", 2)});
  const auto refused = get();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kPermissionDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("127.0.0.1"));
  EXPECT_EQ(requests().size(), 1u);
  Client trusting(
      {.reach = {.private_allowed = true, .private_redirects_allowed = true}, .patience = kHasty});
  const auto followed = trusting.send(
      Request{.url = server_.address() + "/x", .headers = {{"Authorization", "mine"}}});
  ASSERT_TRUE(followed.ok()) << to_string(followed.error());
  EXPECT_EQ(followed->body, "ok");
  EXPECT_THAT(requests().at(1), HasSubstr("Authorization: mine"));
  EXPECT_THAT(requests().at(2), Not(HasSubstr("Authorization")));
  Client strict({.reach = {}, .patience = kHasty});
  EXPECT_EQ(strict.send(Request{.url = server_.address()}).error().code, Code::kPermissionDenied);
}

TEST_F(HttpTest, RedirectsInACircleAndOfAPutEnd) {
  Client client(
      {.reach = {.private_allowed = true, .private_redirects_allowed = true}, .patience = kHasty});
  answers({answer("302 Found\r\nLocation: /y", "", 0)});
  EXPECT_EQ(client.send(Request{.url = server_.address()}).error().code, Code::kIncompatible);
  EXPECT_EQ(requests().size(), 6u);
  const auto put = client.send(
      Request{.method = "PUT", .url = server_.address(), .headers = {}, .body = body_of("x")});
  EXPECT_EQ(put.error().code, Code::kIncompatible);
  EXPECT_EQ(requests().size(), 7u);
  answers({answer("302 Found\r\nLocation: file:///etc/passwd", "", 0)});
  EXPECT_EQ(client.send(Request{.url = server_.address()}).error().code, Code::kValidation);
}

TEST_F(HttpTest, ABodyIsSentWholeAndAgain) {
  answers({answer("500 No", "", 0), answer("200 OK\r\nETag: \"e\"", "", 0)});
  const auto put = client_.send(Request{.method = "PUT",
                                        .url = server_.address() + "/k",
                                        .headers = {{"Content-MD5", "m"}},
                                        .body = body_of("the body")});
  ASSERT_TRUE(put.ok()) << to_string(put.error());
  EXPECT_EQ(*put->header("etag"), "\"e\"");
  for (const std::string& request : requests()) {
    EXPECT_THAT(request, ::testing::StartsWith("PUT /k HTTP/1.1\r\n"));
    EXPECT_THAT(request, HasSubstr("Content-Length: 8\r\n"));
    EXPECT_THAT(request, ::testing::EndsWith("\r\n\r\nthe body"));
  }
}

TEST_F(HttpTest, AnAnswerThatIsTooLargeAndAClientThatStopsEnd) {
  answers({answer("200 OK", std::string(Client::kAnswerMax + 1, 'x'), Client::kAnswerMax + 1)});
  EXPECT_EQ(client_.send(Request{.url = server_.address()}).error().code, Code::kIncompatible);
  client_.stop();
  EXPECT_EQ(client_.send(Request{.url = server_.address()}).error().code, Code::kCancelled);
}

}  // namespace
}  // namespace shoal::objects
