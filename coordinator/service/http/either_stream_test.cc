// One port, two languages: the first byte tells TLS from plain HTTP.
#include "coordinator/service/http/either_stream.h"

#include <future>

#include <gmock/gmock.h>

#include "coordinator/service/http/server_test_util.h"
#include "coordinator/service/http/tls_client_test_util.h"
#include "coordinator/service/machines/machines.h"
#include "coordinator/store/store_test_util.h"

namespace shoal::coordinator::rest {
namespace {

using ::testing::HasSubstr;

class EitherStreamTest : public testing::ServerFixture {
 protected:
  void start_with_machines() {
    store_ = std::move(Store::open(folder_.path())).value();
    machines_ = std::move(Machines::open({.folder = folder_.path()}, *store_)).value();
    ca_ = *identity::parse_hash(machines_->authorities().at(0).record.fingerprint);
    start({.machines = machines_.get()});
  }
  testing::TlsAnswer get_over_tls(const std::string& path) {
    return testing::ask_over_tls(address_, ca_, machines_->now(),
                                 "GET " + path +
                                     " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" +
                                     testing::login_line() + "\r\n");
  }

  TemporaryFolder folder_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Machines> machines_;
  identity::Hash256 ca_;
};

TEST_F(EitherStreamTest, ThePortAnswersBoth) {
  start_with_machines();
  EXPECT_EQ(get("/livez").body, "ok\n");
  const auto answer = get_over_tls("/livez");
  EXPECT_TRUE(answer.believed);
  EXPECT_THAT(answer.text, HasSubstr("200 OK"));
  EXPECT_THAT(answer.text, HasSubstr("\r\n\r\nok\n"));
}

TEST_F(EitherStreamTest, LargeAnswersComeWholeOverTls) {
  start_with_machines();
  const std::string plain = get("/api/v1/openapi.json").body;
  ASSERT_GT(plain.size(), 50'000u);
  EXPECT_TRUE(get_over_tls("/api/v1/openapi.json").text.ends_with(plain));
}

TEST_F(EitherStreamTest, AnEventStreamRunsOverTlsUntilTheServerStops) {
  start_with_machines();
  auto heard = std::async(std::launch::async,
                          [&] { return get_over_tls("/api/v1/events/stream?from=0").text; });
  // The stream is open once it is counted.
  while (get("/metrics").body.find("shoal_http_streams 1") == std::string::npos) {
  }
  cluster_.add_event("stirred", {}, "over TLS");
  server_->stop();
  EXPECT_THAT(heard.get(), HasSubstr("text/event-stream"));
}

TEST_F(EitherStreamTest, WhoKnowsAnotherCaBelievesNothing) {
  start_with_machines();
  ca_.bytes[0] ^= 1;
  EXPECT_FALSE(get_over_tls("/livez").believed);
}

TEST_F(EitherStreamTest, WithoutACertificateTlsIsClosedAndPlainHttpServed) {
  start();
  testing::Client client(address_);
  client.send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) +
              std::string(64, 'x'));
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(get("/livez").body, "ok\n");
}

TEST_F(EitherStreamTest, AGreetingThatIsNoneIsClosed) {
  start_with_machines();
  testing::Client client(address_);
  client.send(std::string("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", 10) + std::string(64, 'x'));
  EXPECT_TRUE(client.closed());
}

}  // namespace
}  // namespace shoal::coordinator::rest
