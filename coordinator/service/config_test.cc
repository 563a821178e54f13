#include "coordinator/service/config.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::coordinator {
namespace {

using ::testing::HasSubstr;

Result<CommandLine> read(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "shoal-coordinator");
  return read_command_line(static_cast<int>(flags.size()), flags.data());
}

TEST(Config, DefaultsAreLoopback) {
  const auto line = read({"--data-dir", "/tmp/x/"});
  ASSERT_TRUE(line.ok()) << to_string(line.error());
  EXPECT_EQ(line->config.data_dir, "/tmp/x");
  EXPECT_EQ(line->config.http, "127.0.0.1:7070");
  EXPECT_TRUE(is_loopback(line->config.grpc));
  EXPECT_FALSE(line->text);
  EXPECT_FALSE(line->config.core.version.empty());
}

TEST(Config, SecondsBecomeDurations) {
  const auto line = read({"--data-dir", "/tmp/x", "--heartbeat-s", "0.5", "--lease-s", "3"});
  ASSERT_TRUE(line.ok()) << to_string(line.error());
  EXPECT_EQ(line->config.core.heartbeat_every, milliseconds(500));
  EXPECT_EQ(line->config.core.lease, seconds(3));
}

TEST(Config, MistakesNameTheFlag) {
  EXPECT_EQ(read({"--http", "7070"}).error().field, "--http");
  EXPECT_EQ(read({"--grpc", "127.0.0.1:70000"}).error().field, "--grpc");
  EXPECT_THAT(to_string(read({"--log-format", "xml"}).error()), HasSubstr("--log-format"));
  EXPECT_THAT(to_string(read({"--color"}).error()), HasSubstr("--color"));
  EXPECT_FALSE(read({"--lease-s", "0"}).ok());
  EXPECT_EQ(read({"--lease-s", "1", "--heartbeat-s", "5"}).error().field, "--lease-s");
  for (const char* flag : {"--heartbeat-s", "--lease-s", "--gather-window-s"}) {
    for (const char* bad : {"nan", "inf", "-1", "x"}) {
      EXPECT_THAT(to_string(read({flag, bad}).error()), HasSubstr("must be a number from 0.001"));
    }
  }
  EXPECT_EQ(read({"--address-file", "/nowhere/at/all"}).error().field, "--address-file");
  EXPECT_EQ(read({"--address-file", "/tmp"}).error().field, "--address-file");
  EXPECT_EQ(read({"--public-url", "shoal.example"}).error().field, "--public-url");
  EXPECT_EQ(read({"--data-root", "relative"}).error().field, "--data-root");
}

TEST(Config, AddressesAreOfThisHostAndDifferent) {
  for (const char* bad : {"localhost", "nowhere.invalid:7070", "127.0.0.1", "127.0.0.1:",
                          "::1:7070", ":7070", "[127.0.0.1]:7070", "256.0.0.1:7070"}) {
    EXPECT_EQ(read({"--http", bad, "--insecure-http"}).error().field, "--http") << bad;
    EXPECT_EQ(read({"--grpc", bad}).error().field, "--grpc") << bad;
  }
  for (const char* good : {"localhost:7072", "[::1]:0", "0.0.0.0:7072"}) {
    EXPECT_TRUE(read({"--http", good, "--insecure-http"}).ok()) << good;
  }
  EXPECT_EQ(read({"--http", "127.0.0.1:9", "--grpc", "127.0.0.1:9"}).error().field, "--grpc");
  EXPECT_TRUE(read({"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"}).ok());
}

TEST(Config, APublicUrlIsAnOrigin) {
  const auto line = read({"--data-dir", "/tmp/x", "--public-url", "https://Shoal.Example/"});
  ASSERT_TRUE(line.ok()) << to_string(line.error());
  EXPECT_EQ(line->config.public_url, "https://shoal.example");
}

TEST(Config, LifeOfCertificatesHasBounds) {
  EXPECT_EQ(read({})->config.certificate_life, seconds(86'400));
  EXPECT_EQ(read({"--certificate-life-s", "60"})->config.certificate_life, seconds(60));
  for (const char* bad : {"1", "nan", "-1", "604801"}) {
    EXPECT_FALSE(read({"--certificate-life-s", bad}).ok()) << bad;
  }
}

TEST(Config, QuotasAreForAllOrForOne) {
  const DeviceQuotas quotas = read({"--quota", "8", "--quota", "ada=16"})->config.core.quotas;
  EXPECT_EQ(quotas.of_owner("ada"), 16);
  EXPECT_EQ(quotas.of_owner("bob"), 8);
  EXPECT_EQ(quotas.of_owner(""), 0) << "jobs from before there were owners";
  EXPECT_EQ(read({})->config.core.quotas.of_owner("bob"), 0);
  for (const char* bad : {"", "x", "-1", "ada=", "=3", "ada=1.5"})
    EXPECT_EQ(read({"--quota", bad}).error().field, "--quota") << bad;
  EXPECT_EQ(read({"--quota", "a=1", "--quota", "a=2"}).error().field, "--quota");
}

TEST(Config, SpaceAndAgesAreBounded) {
  const auto config = read({"--checkpoints-max-gib", "1.5", "--keep-ended", "30d", "--history", "0",
                            "--history-full", "12h"})
                          ->config;
  EXPECT_EQ(config.core.checkpoints_max, mebibytes(1536));
  EXPECT_EQ(config.core.keep_ended, seconds(30 * 86'400));
  EXPECT_EQ(config.history.keep, Duration());
  EXPECT_EQ(config.history.full, seconds(12 * 3600));
  EXPECT_EQ(read({})->config.core.checkpoints_max, Bytes()) << "no budget";
  EXPECT_EQ(read({})->config.core.keep_ended, Duration());
  EXPECT_EQ(read({})->config.history.keep, seconds(365 * 86'400));
  for (const char* bad : {"", "30", "-1d", "1w"}) {
    EXPECT_THAT(to_string(read({"--keep-ended", bad}).error()), HasSubstr("--keep-ended")) << bad;
  }
  EXPECT_FALSE(read({"--checkpoints-max-gib", "-1"}).ok());
}

TEST(Config, AddressesMayBeOpen) {
  EXPECT_TRUE(read({"--http", "0.0.0.0:7070"}).ok());
  EXPECT_FALSE(read({"--http", "0.0.0.0:7070"})->config.insecure_http);
  EXPECT_TRUE(read({"--grpc", "0.0.0.0:7071"}).ok());
}

TEST(Config, HelpAndVersionAreTexts) {
  EXPECT_THAT(*read({"--help"})->text, HasSubstr("--data-dir"));
  EXPECT_THAT(*read({"--version"})->text, HasSubstr("shoal-coordinator"));
}

TEST(Config, LoopbackIsRecognized) {
  EXPECT_TRUE(is_loopback("127.0.0.1:0"));
  EXPECT_TRUE(is_loopback("[::1]:80"));
  EXPECT_TRUE(is_loopback("localhost:80"));
  EXPECT_FALSE(is_loopback("0.0.0.0:80"));
  EXPECT_FALSE(is_loopback("[::]:80"));
}

}  // namespace
}  // namespace shoal::coordinator
