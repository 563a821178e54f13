// Shards behind URLs, read as a trainer's agent does: whatever a server does wrong becomes an error
// that names shard and byte, and right bytes are never mixed with wrong ones.
#include "agent/host/url_reader.h"

#include <gmock/gmock.h>

#include "agent/host/folder_test_util.h"
#include "base/sha256.h"
#include "cli/server_test_util.h"
#include "threads/clock.h"

namespace shoal::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr ReplicaId kReplica{7};
constexpr std::int64_t kChunk = data::kChunkBytesMin;
constexpr objects::Patience kHasty{.connect = seconds(2),
                                   .silence = seconds(2),
                                   .tries = 2,
                                   .pause_first = milliseconds(1),
                                   .pause_max = milliseconds(2)};
constexpr objects::Reach kHere{.clear_allowed = true, .private_allowed = true};

std::string raw_of(const std::string& hex) {
  std::string raw;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    raw += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return raw;
}

std::int64_t number_after(const std::string& text, const std::string& key) {
  const auto at = text.find(key);
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + key.size()));
}

// A dataset of one shard of two and a half chunks behind a URL, and a server that may misbehave.
class UrlReaderTest : public ::testing::Test {
 protected:
  UrlReaderTest() {
    for (std::int64_t i = 0; i < 5 * kChunk / 2; ++i) shard_ += static_cast<char>(i * i % 251);
    there_ = shard_;
    describe("/web.bin");
  }
  // The manifest names this place of the server, or another URL.
  void describe(const std::string& place) {
    std::string hashes;
    for (std::size_t at = 0; at < shard_.size(); at += kChunk) {
      hashes += raw_of(sha256_of(shard_.substr(at, kChunk)));
    }
    const std::string url = place.starts_with("/") ? server_.address() + place : place;
    manifest_ = put(data::to_text({Tokenizer::kBytes,
                                   kChunk,
                                   {{"web.bin", static_cast<std::int64_t>(shard_.size()),
                                     sha256_of(shard_), put(hashes), url, 250, 0}}}));
  }
  std::string put(const std::string& text) {
    files_[sha256_of(text)] = text;
    return sha256_of(text);
  }
  std::string answer(const std::string& request) {
    ++asked_;
    if (!moved_to_.empty()) {
      return cli::http_answer(302, "", "text/plain", "Location: " + moved_to_ + "\r\n");
    }
    if (refuses_ > 0 && refuses_-- > 0) return cli::http_answer(403, "no");
    if (is_gone_) return cli::http_answer(404, "no such bucket");
    const std::int64_t first = number_after(request, "Range: bytes=");
    if (ignores_ranges_ || first < 0) return cli::http_answer(200, there_);
    const std::int64_t last = number_after(request, "Range: bytes=" + std::to_string(first) + "-");
    const auto end = std::min<std::int64_t>(last, std::ssize(there_) - 1);
    const std::string piece =
        there_.substr(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first + 1));
    return cli::http_answer(206, piece, "application/octet-stream",
                            "Content-Range: bytes " + std::to_string(first) + "-" +
                                std::to_string(end) + "/" + std::to_string(there_.size()) + "\r\n");
  }
  Result<SignedUrl> sign(const FileRange& range) {
    EXPECT_EQ(range.sha256, sha256_of(shard_));
    ++signed_;
    return SignedUrl{server_.address() + "/signed?number=" + std::to_string(signed_), valid_};
  }
  Result<std::string> read(std::int64_t chunk, objects::Reach reach = kHere) {
    if (!urls_) {
      urls_ = std::make_unique<UrlReader>(
          reach, [this](const FileRange& range) { return sign(range); }, kHasty);
      source_ = std::make_unique<DataSource>(
          *cache_, [this](const FileRange& range) -> Result<std::string> {
            return range.url.empty() ? Result(files_.at(range.sha256)) : urls_->read(range);
          });
    }
    return source_->read(kReplica, manifest_, 0, chunk);
  }
  Error refusal(std::int64_t chunk) {
    const auto got = read(chunk);
    EXPECT_FALSE(got.ok());
    return got.ok() ? Error{} : got.error();
  }
  std::string chunk(std::int64_t number) const {
    return shard_.substr(static_cast<std::size_t>(number * kChunk), kChunk);
  }

  TestFolder folder_;
  std::string shard_, there_, manifest_, moved_to_;
  std::map<std::string, std::string> files_;
  bool ignores_ranges_ = false, is_gone_ = false;
  int refuses_ = 0, asked_ = 0, signed_ = 0;
  Duration valid_ = seconds(3'600);
  cli::ScriptedServer server_{[this](const std::string& request) { return answer(request); }};
  std::unique_ptr<DataCache> cache_ =
      std::move(DataCache::open(folder_.path() + "/cache", mebibytes(1))).value();
  std::unique_ptr<UrlReader> urls_;
  std::unique_ptr<DataSource> source_;
};

TEST_F(UrlReaderTest, RangesAreReadOnceEach) {
  for (const std::int64_t number : {2, 0, 1}) EXPECT_EQ(*read(number), chunk(number));
  EXPECT_EQ(*read(1), chunk(1));
  EXPECT_EQ(asked_, 3);
  EXPECT_EQ(signed_, 0);
}

TEST_F(UrlReaderTest, AServerWithoutRangesIsRefused) {
  ignores_ranges_ = true;
  const Error error = refusal(1);
  EXPECT_EQ(error.code, Code::kIncompatible);
  EXPECT_THAT(error.message, HasSubstr("shard web.bin, byte 4096: "));
  EXPECT_THAT(error.message, HasSubstr("range"));
}

TEST_F(UrlReaderTest, AFileOfAnotherLengthIsRefused) {
  there_ += "more";
  EXPECT_EQ(refusal(0).code, Code::kDataLoss);
  EXPECT_THAT(refusal(0).message, HasSubstr("shard web.bin, byte 0: "));
  there_.resize(shard_.size() - 1);
  EXPECT_EQ(refusal(2).code, Code::kDataLoss) << "a cut one";
}

TEST_F(UrlReaderTest, WhatIsGoneOrDeniesIsNamedWithItsPlaceAndARemedy) {
  is_gone_ = true;
  for (const char* place : {"/web.bin", "s3://data/web.bin?endpoint=http://store:9000"}) {
    describe(place);
    const Error error = refusal(1);
    EXPECT_EQ(error.code, Code::kNotFound);
    EXPECT_THAT(error.message, HasSubstr("shard web.bin, byte 4096: "));
    EXPECT_THAT(error.message, HasSubstr("status 404"));
    EXPECT_THAT(error.remedy, HasSubstr("add the new content as another dataset"));
  }
  describe("/web.bin");
  refuses_ = 1;
  EXPECT_EQ(refusal(1).code, Code::kPermissionDenied);
  refuses_ = 1;
  EXPECT_THAT(to_string(refusal(1)), HasSubstr("status 403 (let this key or address read it"));
  is_gone_ = false;
  EXPECT_EQ(*read(1), chunk(1)) << "once it is back";
}

TEST_F(UrlReaderTest, AFileThatChangedIsRefusedWhereItChanged) {
  there_[static_cast<std::size_t>(kChunk) + 5] ^= 1;
  EXPECT_EQ(*read(0), chunk(0));
  const Error error = refusal(1);
  EXPECT_EQ(error.code, Code::kDataLoss);
  EXPECT_THAT(error.message,
              HasSubstr("shard web.bin, byte 4096: the content at http://127.0.0.1"));
  EXPECT_THAT(error.message, HasSubstr("has changed since the dataset was added"));
  there_ = shard_;
  EXPECT_EQ(*read(1), chunk(1)) << "what was wrong is not kept";
}

TEST_F(UrlReaderTest, ARedirectToAPrivateAddressIsRefused) {
  moved_to_ = server_.address() + "/metadata";
  const Error error = refusal(0);
  EXPECT_EQ(error.code, Code::kPermissionDenied);
  EXPECT_THAT(error.message, HasSubstr("shard web.bin, byte 0: "));
  EXPECT_THAT(error.message, HasSubstr("127.0.0.1"));
  EXPECT_EQ(asked_, 1);
}

TEST_F(UrlReaderTest, APrivateAddressIsNotAskedUnlessItsOperatorAllowsIt) {
  EXPECT_EQ(read(0, objects::Reach{}).error().code, Code::kPermissionDenied);
  EXPECT_EQ(asked_, 0);
}

TEST_F(UrlReaderTest, AnObjectIsReadByASignedUrlAsLongAsThatLasts) {
  describe("s3://data/web.bin?endpoint=http://store:9000");
  EXPECT_EQ(*read(0), chunk(0));
  EXPECT_EQ(*read(1), chunk(1));
  EXPECT_EQ(signed_, 1);
  valid_ = seconds(60);  // too short to begin with
  urls_.reset();
  EXPECT_EQ(*read(2), chunk(2));
  source_->read(kReplica, manifest_, 0, 0).value();
  EXPECT_EQ(signed_, 2) << "what is cached needs none";
}

TEST_F(UrlReaderTest, WhatAStoreRefusesIsSignedAgain) {
  describe("s3://data/web.bin?endpoint=http://store:9000");
  refuses_ = 1;
  EXPECT_EQ(refusal(0).code, Code::kUnavailable) << "a trainer asks again";
  EXPECT_EQ(*read(0), chunk(0));
  EXPECT_EQ(signed_, 2);
  there_[0] ^= 1;
  describe("s3://data/web.bin?endpoint=http://store:9000");
  source_.reset(), urls_.reset();
  cache_ = std::move(DataCache::open(folder_.path() + "/other", mebibytes(1))).value();
  EXPECT_THAT(refusal(0).message, HasSubstr("the content at s3://data/web.bin has changed"));
  EXPECT_THAT(refusal(0).message, Not(HasSubstr("number=")));
}

TEST_F(UrlReaderTest, StoppingEndsAllReads) {
  EXPECT_TRUE(read(0).ok());
  urls_->stop();
  EXPECT_EQ(refusal(1).code, Code::kUnavailable);
}

}  // namespace
}  // namespace shoal::agent
