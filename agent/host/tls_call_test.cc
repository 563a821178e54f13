// One request over TLS against a server that the test plays: what is believed, what is said.
#include "agent/host/tls_call.h"

#include <array>
#include <thread>

// clang-format off
#include <utility>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
// clang-format on
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "identity/authority.h"
#include "threads/clock.h"

namespace shoal::agent {
namespace {

using testing::HasSubstr;
namespace net = boost::asio;

constexpr Duration kLimit = seconds(20);

// Answers one connection with these bytes; speaks TLS with a certificate of `ca` when it is given.
class OneAnswer {
 public:
  OneAnswer(std::string answer, const identity::Authority* ca, Instant now = unix_now())
      : acceptor_(io_, {net::ip::address_v4::loopback(), 0}) {
    if (ca != nullptr) {
      const auto key = identity::PrivateKey::make();
      context_ = *identity::make_tls_context(
          identity::OpenServer{{key, *ca->issue_server(key, {"localhost"}, now), ca->chain(now)}},
          unix_now);
    }
    thread_ = std::thread([this, answer = std::move(answer)] { serve(answer); });
  }
  ~OneAnswer() { thread_.join(); }
  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }

 private:
  void serve(const std::string& answer) {
    boost::system::error_code error;
    net::ip::tcp::socket socket(io_);
    acceptor_.accept(socket, error);
    if (context_ == nullptr) {
      net::write(socket, net::buffer(answer), error);
      return;
    }
    net::ssl::stream<net::ip::tcp::socket> stream(std::move(socket), *context_);
    stream.handshake(net::ssl::stream_base::server, error);
    std::array<char, 4096> asked{};
    if (!error) stream.read_some(net::buffer(asked), error);
    if (!error) net::write(stream, net::buffer(answer), error);
  }

  net::io_context io_;
  net::ip::tcp::acceptor acceptor_;
  std::shared_ptr<net::ssl::context> context_;
  std::thread thread_;
};

class TlsCallTest : public testing::Test {
 protected:
  static Result<std::string> post(const OneAnswer& server, const identity::Authority& trusted) {
    return post_over_tls({server.address(),
                          {std::nullopt,
                           trusted.fingerprint(),
                           {.cluster = {}, .kind = identity::PeerKind::kCoordinator}}},
                         "/api/v1/enrol", "{}", kLimit);
  }
  static std::string answer(const std::string& head, const std::string& body) {
    return "HTTP/1.1 " + head + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           body;
  }
  const identity::Authority ca_ = identity::Authority::make({"reef"}, unix_now());
  const identity::Authority other_ = identity::Authority::make({"reef"}, unix_now());
};

TEST_F(TlsCallTest, GivesTheBody) {
  const OneAnswer server(answer("200 OK", "{\"a\":1}"), &ca_);
  const auto body = post(server, ca_);
  ASSERT_TRUE(body.ok()) << to_string(body.error());
  EXPECT_EQ(*body, "{\"a\":1}");
}

TEST_F(TlsCallTest, ARefusalIsInTheCoordinatorsWords) {
  const OneAnswer server(answer("401 Unauthorized", R"({"detail":"expired","hint":"ask anew"})"),
                         &ca_);
  const auto refused = post(server, ca_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error(), (Error{Code::kUnauthenticated, "expired", "", "ask anew"}));
}

TEST_F(TlsCallTest, ARefusalNamesItsField) {
  const OneAnswer server(
      answer("422 Unprocessable Content", R"({"detail":"is off","errors":[{"pointer":"clock"}]})"),
      &ca_);
  EXPECT_EQ(post(server, ca_).error(), (Error{Code::kUnavailable, "is off", "clock", ""}));
}

TEST_F(TlsCallTest, AClockThatIsAnHourBehindIsNamedWithTheDifferenceAndMayPass) {
  const Instant theirs = unix_now() + seconds(3600);
  const identity::Authority ahead = identity::Authority::make({"reef"}, theirs);
  const OneAnswer server(answer("200 OK", "{}"), &ahead, theirs);
  const auto refused = post(server, ahead);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnavailable) << "it is tried again";
  EXPECT_THAT(refused.error().message, HasSubstr("this host's clock is at least "));
  EXPECT_THAT(refused.error().message, testing::AnyOf(HasSubstr("1 h behind the coordinator's"),
                                                      HasSubstr("59 min 59 s behind")));
  EXPECT_THAT(refused.error().remedy, HasSubstr("set the clocks"));
}

TEST_F(TlsCallTest, WhatMayPassIsTriedAgain) {
  const OneAnswer server(answer("503 Service Unavailable", R"({"detail":"busy"})"), &ca_);
  EXPECT_EQ(post(server, ca_).error().code, Code::kUnavailable);
}

TEST_F(TlsCallTest, AnotherClustersCoordinatorIsNotBelieved) {
  const OneAnswer server(answer("200 OK", "{}"), &other_);
  const auto refused = post(server, ca_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnauthenticated);
  EXPECT_THAT(refused.error().message, HasSubstr("foreign CA"));
  EXPECT_THAT(refused.error().remedy, HasSubstr("right address"));
}

TEST_F(TlsCallTest, WhatSpeaksNoTlsIsNamed) {
  const OneAnswer server("SSH-2.0-OpenSSH_9.2\r\n", nullptr);
  EXPECT_FALSE(post(server, ca_).ok());
}

TEST_F(TlsCallTest, AHandshakeAloneTellsTheFault) {
  const identity::Client role{
      std::nullopt, ca_.fingerprint(), {.cluster = {}, .kind = identity::PeerKind::kCoordinator}};
  const OneAnswer foreign("", &other_);
  const auto fault = fault_of_handshake({foreign.address(), role}, kLimit);
  ASSERT_TRUE(fault);
  EXPECT_THAT(fault->message, HasSubstr("foreign CA"));
  EXPECT_FALSE(fault_of_handshake({"127.0.0.1:1", role}, kLimit)) << "nobody answers there";
}

}  // namespace
}  // namespace shoal::agent
