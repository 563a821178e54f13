// What a fuzzer found worth keeping of parser_fuzz.h, again, and one good input of every parser
// with each of its bytes changed. SHOAL_REWRITE_CORPUS=1 writes the good ones into the corpus.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/check.h"
#include "data/manifest.h"
#include "identity/api_token.h"
#include "identity/authority.h"
#include "identity/join_token.h"
#include "identity/key.h"
#include "identity/request.h"
#include "job/sync_spec_test_util.h"
#include "proto/convert.h"
#include "proto/job_spec_text.h"
#include "tests/fuzz/parser_fuzz.h"
#include "transfer/bundle.h"
#include "wire/relay/words.h"
#include "wire/stream/core/frame.h"

namespace shoal::fuzz {
namespace {

constexpr Instant kNoon = from_unix_ms(1'800'000'000'000);

struct Named {
  std::string name;
  std::string input;  // with the byte that chooses the parser
};

Named named(const char* name, Parser parser, std::string_view text) {
  return {name, std::string(1, static_cast<char>(parser)) + std::string(text)};
}

template <typename Array>
std::string text_of(const Array& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string tensor_file() {
  const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + std::string(8, '\0');
}

JobSpec small_spec() {
  JobSpec spec;
  spec.name = "small";
  spec.data.train = "/data/text.txt";
  return with_derived_fields(spec);
}

std::vector<Named> between_peers() {
  const wire::stream::FrameHeader data{wire::stream::FrameType::kData, 16, 48, 1, 0, 32, 0};
  wire::stream::Hello hello;
  hello.message_max = wire::stream::kPieceBytes;
  hello.window = 4 * wire::stream::kPieceBytes;
  hello.streams_max = 64;
  return {named("stream_header", Parser::kStreamHeader, text_of(wire::stream::encode(data))),
          named("stream_hello", Parser::kStreamHello, text_of(wire::stream::encode(hello))),
          named("stream_reason", Parser::kStreamReason,
                wire::stream::encode_reason(Code::kCancelled, "the round is over"))};
}

std::vector<Named> messages() {
  Hello hello;
  hello.uid = std::string(32, 'a'), hello.name = "a", hello.host = "127.0.0.1";
  hello.devices = {{.name = "cpu", .memory = mebibytes(512), .gflops = 10}};
  const RoundKey key{JobId(1), 0, 1};
  const FromReplica<ReduceFailed> failed{
      ReplicaId(1), {key, 1, ReplicaId(2), ReduceFailure::kPeerLost, "simulated loss"}};
  const Release release{ReplicaId(1), ReleaseReason::kReplaced};
  return {named("agent_hello", Parser::kAgentMessage, proto::to_wire(hello).SerializeAsString()),
          named("agent_said", Parser::kAgentMessage,
                proto::to_wire(FromAgent(failed)).SerializeAsString()),
          named("coordinator_said", Parser::kCoordinatorMessage,
                proto::to_wire(ToAgent(release)).SerializeAsString())};
}

std::vector<Named> identities() {
  const auto ca = identity::Authority::make({"reef"}, kNoon);
  const auto key = identity::PrivateKey::make();
  const std::string csr = identity::make_request(key);
  const auto issued = ca.issue_agent(*identity::SigningRequest::parse(csr), AgentId(7), kNoon);
  const auto join =
      identity::make_join_token(identity::JoinTokenId(1), ca.fingerprint(), 1, seconds(60), kNoon);
  const identity::ApiToken api{identity::ApiTokenId(3), std::string(64, 'a')};
  return {named("csr", Parser::kCsr, csr),
          named("chain", Parser::kChain, issued->pem() + ca.certificate().pem()),
          named("join_token", Parser::kJoinToken, identity::to_string(join->token)),
          named("api_token", Parser::kApiToken, identity::to_string(api))};
}

constexpr const char* kTokenizer = R"({"added_tokens":[{"id":3,"content":"<e>","special":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Prepend","prepend":"_"}]},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{L}+|\\s+"},
"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<e>"}},{"Sequence":{"id":"A"}}],
"special_tokens":{"<e>":{"ids":[3]}}},"decoder":{"type":"ByteLevel"},
"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})";

std::string small_bundle() {
  namespace fs = std::filesystem;
  std::string folder = testing::TempDir() + "bundle_XXXXXX";
  SHOAL_CHECK(::mkdtemp(folder.data()) != nullptr);
  fs::create_directories(folder + "/model");
  std::ofstream(folder + "/model/a.py") << "1\n";
  std::ofstream(folder + "/train.py") << "import model\n";
  const auto bundle = pack_bundle(folder, {"train.py", "model/a.py"});
  fs::remove_all(folder);
  return bundle.value();
}

constexpr const char* kParts =
    "<?xml version='1.0'?><ListPartsResult><IsTruncated>true</IsTruncated>"
    "<NextPartNumberMarker>2</NextPartNumberMarker><Part><PartNumber>2</PartNumber>"
    "<Size>5</Size><ETag>&quot;e&quot;</ETag></Part></ListPartsResult>";
constexpr const char* kObjects =
    "<ListBucketResult><Contents><Key>a&amp;b</Key><Size>5</Size><ETag>e</ETag></Contents>"
    "</ListBucketResult>";

std::vector<Named> files() {
  const std::string hash(64, 'a');
  const data::Manifest manifest{Tokenizer::kUint16, 4096, {{"a.bin", 4098, hash, hash, "", 7, 3}}};
  const wire::relay::Nonce nonce{};
  return {named("manifest", Parser::kManifest, data::to_text(manifest)),
          named("bundle", Parser::kBundle, small_bundle()),
          named("s3_parts", Parser::kObjectStore, kParts),
          named("s3_objects", Parser::kObjectStore, kObjects),
          named("s3_location", Parser::kLocation,
                "s3://bucket/p?endpoint=https://h:9000&region=r&style=host&part_mib=8"),
          named("s3_credentials", Parser::kCredentials,
                "[default]\naws_access_key_id = A\naws_secret_access_key = s # no\n"),
          named("asked_range", Parser::kAskedRange,
                "\x7f"
                "bytes=5-99"),
          named("content_range", Parser::kContentRange, "bytes 5-9/10"),
          named("relay_word", Parser::kRelayWord,
                wire::relay::encode(wire::relay::Challenge{wire::relay::kVersion, nonce}))};
}

std::vector<Named> good_inputs() {
  const std::string kept = proto::spec_to_json(small_spec()).dump();
  std::vector<Named> inputs = {
      named("job_toml", Parser::kJobToml, "name = \"a\"\n[data]\ntrain = \"/data/a.txt\"\n"),
      named("job_json", Parser::kJobJson, R"({"name":"a","data":{"train":"/data/a.txt"}})"),
      named("kept_job", Parser::kKeptJob, kept),
      named("target", Parser::kTarget, "/api/v1/jobs?limit=5&order=asc&gone=true&x=%41"),
      named("link_options", Parser::kLinkOptions, "up=200mbit,down=200mbit,rtt=80ms,jitter=5ms"),
      named("event_stream", Parser::kEventStream, "id: 7\nevent: tick\ndata: {}\n\n: beat\n\n"),
      named("tokenizer", Parser::kTokenizer, kTokenizer),
      named("safetensors", Parser::kSafetensors, tensor_file())};
  for (const auto& part : {between_peers(), messages(), identities(), files()}) {
    inputs.insert(inputs.end(), part.begin(), part.end());
  }
  return inputs;
}

bool is_taken(std::string_view input) { return try_parser(std::as_bytes(std::span(input))); }

TEST(ParserReplay, TheCorpusPasses) {
  const std::filesystem::path folder = SHOAL_PARSER_CORPUS_DIR;
  if (std::getenv("SHOAL_REWRITE_CORPUS") != nullptr) {
    for (const Named& each : good_inputs()) {
      std::ofstream(folder / each.name, std::ios::binary) << each.input;
    }
  }
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    is_taken(std::string{std::istreambuf_iterator<char>(in), {}});
    ++count;
  }
  EXPECT_GE(count, static_cast<int>(good_inputs().size()));
}

TEST(ParserReplay, GoodInputsAreTaken) {
  for (const Named& each : good_inputs()) EXPECT_TRUE(is_taken(each.input)) << each.name;
}

TEST(ParserReplay, GoodInputsWithEachByteChangedOrCutOff) {
  for (const Named& each : good_inputs()) {
    SCOPED_TRACE(each.name);
    for (std::size_t at = 1; at < each.input.size(); ++at) {
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string changed = each.input;
        changed[at] = static_cast<char>(changed[at] ^ change);
        is_taken(changed);
      }
      is_taken(std::string_view(each.input).substr(0, at));
    }
  }
}

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string all;
  while (all.size() + text.size() <= bytes) all += text;
  return all;
}

// A text of the largest size that is nothing but nesting, open and closed.
TEST(ParserReplay, DeepNestingIsRefused) {
  constexpr std::size_t kHalf = std::size_t{500} << 10;
  const auto refused = [](Parser parser, const std::string& text) {
    EXPECT_FALSE(is_taken(std::string(1, static_cast<char>(parser)) + text)) << text.substr(0, 20);
  };
  const std::string open = repeated("[", kHalf), closed = open + repeated("]", kHalf);
  const std::string objects = repeated("{\"a\":", kHalf);
  for (const Parser parser : {Parser::kJobJson, Parser::kKeptJob}) {
    for (const std::string& text :
         {open, closed, objects, objects + "1" + repeated("}", kHalf / 6)}) {
      refused(parser, text);
      refused(parser, "{\"name\":" + text + "}");
    }
  }
  refused(Parser::kJobToml, "name = " + open);
  refused(Parser::kJobToml, "name = " + closed);
  refused(Parser::kJobToml, "name = " + repeated("{a=", kHalf));
  refused(Parser::kJobToml, repeated("a.", kHalf) + "a = 1");
  refused(Parser::kJobToml, "[" + repeated("a.", kHalf) + "a]\nb = 1");
}

}  // namespace
}  // namespace shoal::fuzz
