// What is sent for a dataset: files that the coordinator lacks, in pieces, from where it has them.
#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <stdlib.h>

#include "base/sha256.h"
#include "cli/commands/commands.h"
#include "cli/commands/dataset_files.h"
#include "cli/commands/tokenizer.h"
#include "cli/server_test_util.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// As much of the coordinator's store as an upload sees.
class DatasetTest : public ::testing::Test {
 protected:
  DatasetTest() {
    std::string name = (fs::temp_directory_path() / "shoal-dataset-XXXXXX").string();
    SHOAL_CHECK(::mkdtemp(name.data()) != nullptr);
    folder_ = name;
  }
  ~DatasetTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  Result<int> add(const std::vector<std::string>& files, const std::string& tokens = {},
                  const std::string& tokenizer = {}) {
    return dataset_add({Api(server_.address()), true}, {"books", files, tokens, tokenizer});
  }
  std::string refusal(const std::vector<std::string>& files, const std::string& tokens = {},
                      const std::string& tokenizer = {}) {
    const auto added = add(files, tokens, tokenizer);
    return added.ok() ? "" : to_string(added.error());
  }

  std::string state_of(const std::string& sha256) {
    const std::string& text = received_[sha256];
    const bool complete = sha256_of(text) == sha256;
    return http_answer(
        200, Json{{"sha256", sha256}, {"received", text.size()}, {"complete", complete}}.dump());
  }
  std::string answer(const std::string& request) {
    const std::string body = request.substr(request.find("\r\n\r\n") + 4);
    if (request.starts_with("POST /api/v1/files ")) {
      return state_of(Json::parse(body).at("sha256").get<std::string>());
    }
    if (request.starts_with("PUT /api/v1/files/")) {
      const std::string sha256 = request.substr(18, 64);
      ++pieces_;
      if (fails_ > 0 && fails_-- > 0) return http_answer(503, R"({"detail":"busy"})");
      const std::size_t from = std::stoul(request.substr(request.find("from=") + 5));
      if (from != received_[sha256].size()) return http_answer(409, R"({"detail":"elsewhere"})");
      received_[sha256] += body;
      return state_of(sha256);
    }
    named_ = Json::parse(body);
    return http_answer(201, R"({"name":"books","tokens":6})");
  }
  data::Manifest manifest() {
    return data::parse_manifest(received_[named_.at("manifest").get<std::string>()]).value();
  }

  std::string folder_;
  std::map<std::string, std::string> received_;
  int pieces_ = 0, fails_ = 0;
  Json named_;
  ScriptedServer server_{[this](const std::string& request) { return answer(request); }};
};

TEST_F(DatasetTest, SendsShardsHashesAndTheManifest) {
  const std::string text(2'500'000, 'a');
  const auto added = add({write("a.txt", text), write("b.txt", "zebra")});
  ASSERT_TRUE(added.ok()) << to_string(added.error());
  const data::Manifest sent = manifest();
  ASSERT_EQ(sent.shards.size(), 2u);
  EXPECT_EQ(sent.shards[0].name, "a.txt");
  EXPECT_EQ(received_[sent.shards[0].sha256], text);
  EXPECT_EQ(received_[sent.shards[0].chunks].size(),
            static_cast<std::size_t>(data::chunk_count(sent.shards[0], sent.chunk_bytes)) *
                data::kHashBytes);
  EXPECT_EQ(sent.shards[1].max_token, 'z');
  EXPECT_EQ(sent.shards[1].max_at, 0);
  EXPECT_EQ(pieces_, 3 + 1 + 1 + 1 + 1) << "three of 1 MiB, one each of the others";
  pieces_ = 0;
  ASSERT_TRUE(add({folder_ + "/a.txt", folder_ + "/b.txt"}).ok());
  EXPECT_EQ(pieces_, 0) << "what is there is not sent again";
}

TEST_F(DatasetTest, GoesOnWhereTheCoordinatorIs) {
  const std::string text(1'500'000, 'a');
  received_[sha256_of(text)] = text.substr(0, 1'200'000);
  ASSERT_TRUE(add({write("a.txt", text)}).ok());
  EXPECT_EQ(received_[sha256_of(text)], text);
  EXPECT_EQ(pieces_, 1 + 1 + 1);
}

TEST_F(DatasetTest, ABusyCoordinatorIsAskedAgain) {
  fails_ = 1;
  ASSERT_TRUE(add({write("a.txt", "text")}).ok());
  EXPECT_EQ(pieces_, 1 + 1 + 1 + 1);
}

TEST_F(DatasetTest, HashesOfChunksAreThoseOfTheirBytes) {
  const std::string text = std::string(data::kChunkBytesMin, 'a') + "rest";
  const auto shards = read_shards(RemoteFiles(""), {write("a.txt", text)}, Tokenizer::kBytes,
                                  [](const std::string&, std::int64_t, std::int64_t) {});
  ASSERT_TRUE(shards.ok());
  const std::string& hashes = shards->at(0).hashes;
  ASSERT_EQ(hashes.size(), 2 * data::kHashBytes);
  std::string hex;
  for (const char c : hashes.substr(data::kHashBytes)) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
    hex += two;
  }
  EXPECT_EQ(hex, sha256_of("rest"));
  EXPECT_EQ(shards->at(0).shard.chunks, sha256_of(hashes));
}

TEST_F(DatasetTest, RefusesWhatIsNoShard) {
  EXPECT_THAT(refusal({folder_ + "/nothing.txt"}), HasSubstr("no such file"));
  EXPECT_THAT(refusal({write("empty.txt", "")}), HasSubstr("is empty"));
  EXPECT_THAT(refusal({write("a.bin", "123")}, "uint16"),
              HasSubstr("ends within a token: 3 bytes of 2 each"));
  EXPECT_THAT(refusal({folder_ + "/a.bin"}), HasSubstr("give --tokens"));
  EXPECT_THAT(refusal({write("a.jsonl", "{}")}), HasSubstr("shoal dataset prepare"));
  EXPECT_THAT(refusal({folder_}, "bytes"), HasSubstr("is no file"));
}

// Another program writes it while it is hashed.
TEST_F(DatasetTest, AFileThatChangesWhileItIsReadIsRefused) {
  const std::string text(std::size_t{3} << 20, 'a');
  const auto refusal_when = [&](const std::function<void(const std::string&)>& change) {
    const std::string path = write("web.txt", text);
    const auto shards =
        read_shards(RemoteFiles(""), {path}, Tokenizer::kBytes,
                    [&](const std::string&, std::int64_t, std::int64_t) { change(path); });
    return shards.ok() ? "" : to_string(shards.error());
  };
  EXPECT_EQ(refusal_when([](const std::string&) {}), "");
  EXPECT_THAT(refusal_when([](const std::string& path) { fs::resize_file(path, 1'000); }),
              HasSubstr("web.txt cannot be read at byte 1048576 (did it change meanwhile? add it"));
  EXPECT_THAT(refusal_when([](const std::string& path) {
                std::ofstream(path, std::ios::app | std::ios::binary) << "more";
              }),
              HasSubstr("web.txt has grown while it was read (add it when it is complete)"));
}

TEST_F(DatasetTest, FilesOfOneNameAreToldApartByTheirPaths) {
  fs::create_directories(folder_ + "/one");
  fs::create_directories(folder_ + "/two");
  ASSERT_TRUE(add({write("one/a.txt", "1"), write("two/a.txt", "2")}).ok());
  EXPECT_EQ(manifest().shards[0].name, folder_ + "/one/a.txt");
}

// A server that keeps one file and answers ranges of it.
class ShardServer {
 public:
  explicit ShardServer(std::string content) : content_(std::move(content)) {}
  std::string url() const { return server_.address() + "/data/web-0.bin?signature=secret"; }
  std::string content_;
  bool says_length_ = true;
  int status_ = 200;
  std::size_t promises_ = 0;  // bytes beyond the content that HEAD names

 private:
  std::string answer(const std::string& request) {
    const std::size_t length = content_.size() + promises_;
    if (status_ != 200) return http_answer(status_, "");
    if (request.starts_with("HEAD")) {
      return "HTTP/1.1 200 x\r\n" +
             (says_length_ ? "Content-Length: " + std::to_string(length) + "\r\n" : "") +
             "Connection: close\r\n\r\n";
    }
    return http_answer(200, content_, "application/octet-stream");
  }
  ScriptedServer server_{[this](const std::string& request) { return answer(request); }};
};

TEST_F(DatasetTest, WhatLiesBehindAUrlIsHashedAndStaysThere) {
  ShardServer there(std::string(8'192, 'a'));
  const auto added = add({there.url()}, "bytes");
  ASSERT_TRUE(added.ok()) << to_string(added.error());
  const data::Shard shard = manifest().shards.at(0);
  EXPECT_EQ(shard.name, "web-0.bin") << "without its query";
  EXPECT_EQ(shard.url, there.url());
  EXPECT_EQ(shard.sha256, sha256_of(there.content_));
  EXPECT_FALSE(received_.contains(shard.sha256));
  EXPECT_TRUE(received_.contains(shard.chunks));
}

TEST_F(DatasetTest, AServerThatCannotBeReadFromIsRefusedByName) {
  ShardServer there(std::string(8'192, 'a'));
  there.promises_ = 4;
  const std::string lied = refusal({there.url()}, "bytes");
  EXPECT_THAT(lied, HasSubstr("8192 bytes instead of 8196"));
  EXPECT_THAT(lied, ::testing::Not(HasSubstr("secret")));
  there.says_length_ = false;
  EXPECT_THAT(refusal({there.url()}, "bytes"), HasSubstr("does not say its length"));
  there.status_ = 404;
  EXPECT_THAT(refusal({there.url()}, "bytes"),
              HasSubstr("/data/web-0.bin answered with status 404 (check the name"));
  there.status_ = 403;
  EXPECT_THAT(refusal({there.url()}, "bytes"), HasSubstr("status 403 (let this key or address"));
  EXPECT_TRUE(received_.empty());
}

TEST_F(DatasetTest, ABucketNeedsAKeyAndARealName) {
  ::unsetenv("AWS_ACCESS_KEY_ID");
  EXPECT_THAT(refusal({"s3://data/web-0.bin"}, "bytes"), HasSubstr("--credentials"));
  EXPECT_THAT(refusal({"s3://D/web-0.bin"}, "bytes"),
              HasSubstr("is not a valid name for a bucket"));
}

const std::string kTokenizer = SHOAL_TOKENIZER_GOLDENS "/qwen2.json";  // of 702 tokens

TEST_F(DatasetTest, ATokenizerTravelsInTheManifest) {
  const std::string shard = write("a.bin", std::string("\1\0\2\0", 4));
  ASSERT_TRUE(add({shard}, "uint16", kTokenizer).ok());
  const std::string hash = manifest().tokenizer;
  EXPECT_EQ(received_[hash].size(), fs::file_size(kTokenizer));
  EXPECT_EQ(sha256_of(received_[hash]), hash);
  ASSERT_TRUE(add({shard}, "uint16").ok());
  EXPECT_EQ(manifest().tokenizer, "");
}

TEST_F(DatasetTest, ATokenizerThatDidNotMakeTheTokensIsRefused) {
  const std::string shard = write("a.bin", std::string("\1\0\xbe\2", 4));  // 1, 702
  EXPECT_THAT(refusal({shard}, "uint16", kTokenizer),
              HasSubstr("has 702 tokens, and the token at position 1 of a.bin is 702"));
  EXPECT_THAT(refusal({write("a.txt", "a")}, "", kTokenizer), HasSubstr("byte by byte"));
  EXPECT_THAT(refusal({shard}, "uint16", write("t.json", "[]")), HasSubstr("t.json"));
  EXPECT_TRUE(received_.empty()) << "nothing is sent before";
}

TEST_F(DatasetTest, APreparedFolderSaysWhatItHolds) {
  write("corpus.txt", "Fish swim along the coast, fish after fish.");
  const std::string folder = folder_ + "/prepared";
  PrepareDatasetOptions options;
  options.files = {folder_ + "/corpus.txt"};
  options.tokenizer = kTokenizer;
  options.output = folder;
  ASSERT_TRUE(dataset_prepare(options, true).ok());
  ASSERT_TRUE(add({folder}).ok()) << refusal({folder});
  EXPECT_EQ(manifest().tokens, Tokenizer::kUint16);
  EXPECT_EQ(manifest().shards.at(0).name, "shard_00000.bin");
  EXPECT_EQ(received_[manifest().tokenizer].size(), fs::file_size(kTokenizer));
  EXPECT_THAT(refusal({folder}, "uint32"), HasSubstr("has tokens of uint16"));
  std::fstream(folder + "/shard_00000.bin", std::ios::in | std::ios::out | std::ios::binary)
      .put('\1');
  EXPECT_THAT(refusal({folder}), HasSubstr("has changed since it was prepared"));
  std::ofstream(folder + "/dataset.json") << "{}";
  EXPECT_THAT(refusal({folder}), HasSubstr("no description of format 1"));
}

}  // namespace
}  // namespace shoal::cli
