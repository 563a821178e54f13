#include "tests/fuzz/parser_fuzz.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/stubs/logging.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/link_options.h"
#include "cli/event_reader.h"
#include "coordinator/service/http/byte_range.h"
#include "coordinator/service/http/url.h"
#include "data/manifest.h"
#include "identity/api_token.h"
#include "identity/certificate.h"
#include "identity/join_token.h"
#include "identity/request.h"
#include "objects/answers.h"
#include "objects/content_range.h"
#include "objects/credentials.h"
#include "objects/location.h"
#include "proto/convert.h"
#include "proto/job_spec_text.h"
#include "replica/checkpoint/safetensors.h"
#include "tokenizer/text_tokenizer.h"
#include "transfer/bundle.h"
#include "wire/relay/words.h"
#include "wire/stream/core/frame.h"

namespace shoal::fuzz {
namespace {

using Bytes = std::span<const std::byte>;
constexpr std::size_t kErrorMost = 8 << 10;  // a sentence, not what was sent

template <typename T>
bool taken(const Result<T>& result) {
  SHOAL_CHECK(result.ok() || to_string(result.error()).size() <= kErrorMost, "an endless sentence");
  return result.ok();
}

// ---- between peers

bool try_stream_header(Bytes bytes) {
  namespace stream = wire::stream;
  if (bytes.size() < stream::kHeaderBytes) return false;
  const auto front = bytes.first<stream::kHeaderBytes>();
  const auto header = stream::parse_header(front, stream::kMessageMax);
  if (!taken(header)) return false;
  const auto again = stream::encode(*header);
  SHOAL_CHECK(std::equal(again.begin(), again.end(), front.begin()), "a header in two forms");
  SHOAL_CHECK(header->head <= header->length, "a head beyond its frame");
  return true;
}

bool try_stream_hello(Bytes bytes) {
  const auto hello = wire::stream::parse_hello(bytes);
  if (!taken(hello)) return false;
  const auto again = wire::stream::encode(*hello);
  SHOAL_CHECK(std::equal(again.begin(), again.end(), bytes.begin()), "a hello in two forms");
  return true;
}

bool try_stream_reason(Bytes bytes) {
  const Error error = wire::stream::parse_reason(bytes);
  SHOAL_CHECK(error.message.size() <= kErrorMost);
  return !bytes.empty();
}

// ---- jobs

bool spec_taken(const proto::SpecOrProblems& read) {
  if (read.problems) {
    SHOAL_CHECK(!read.problems->summary.empty(), "refused without a word");
    return false;
  }
  const auto again = proto::read_kept_spec(proto::spec_to_json(read.spec).dump());
  SHOAL_CHECK(!again.problems && again.spec == read.spec, "a job that is not itself any more");
  return true;
}

// ---- messages: what is read is written and read again

template <typename Wire, typename Read>
bool try_message(std::string_view text, Read read) {
  Wire wire;
  if (!wire.ParseFromArray(text.data(), static_cast<int>(text.size()))) return false;
  const auto message = read(wire);
  if (!taken(message)) return false;
  const auto again = read(proto::to_wire(*message));
  SHOAL_CHECK(again.ok() && *again == *message, "a message that is not itself any more");
  return true;
}

bool try_agent_message(std::string_view text) {
  v1::AgentMessage wire;
  if (!wire.ParseFromArray(text.data(), static_cast<int>(text.size()))) return false;
  const auto hello = proto::read_hello(wire);
  if (taken(hello)) {
    const auto again = proto::read_hello(proto::to_wire(*hello));
    SHOAL_CHECK(again.ok() && *again == *hello, "a hello that is not itself any more");
    return true;
  }
  return try_message<v1::AgentMessage>(text,
                                       [](const v1::AgentMessage& m) { return proto::read(m); });
}

// ---- people and hosts

bool try_chain(std::string_view text) {
  const auto chain = identity::Certificate::parse_chain(text);
  if (!taken(chain)) return false;
  SHOAL_CHECK(!chain->empty(), "a chain of nothing");
  const auto again = identity::Certificate::parse(chain->front().pem());
  SHOAL_CHECK(again.ok() && again->fingerprint() == chain->front().fingerprint());
  return true;
}

template <typename Parse>
bool try_token(std::string_view text, Parse parse) {
  const auto token = parse(text);
  if (!taken(token)) return false;
  const auto again = parse(to_string(*token));
  SHOAL_CHECK(again.ok() && *again == *token, "a token that is not itself any more");
  return true;
}

bool try_target(std::string_view text) {
  namespace rest = coordinator::rest;
  rest::Request request;
  if (!rest::split_target(text, request)) return false;
  const auto page = rest::read_page(request, "jobs", true);
  SHOAL_CHECK(!taken(page) || (page->limit >= 1 && page->limit <= 500), "a page without a bound");
  (void)taken(rest::read_flag(request, "gone"));
  (void)taken(rest::read_integer(request, "tail", 1, 100, 10));
  (void)taken(rest::read_number(request, "from"));
  return true;
}

// In memory, under a name that open() takes.
class MemoryFile {
 public:
  explicit MemoryFile(Bytes bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    SHOAL_CHECK(fd_ >= 0);
    SHOAL_CHECK(::write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

bool try_safetensors(Bytes bytes) {
  const MemoryFile file(bytes);
  const auto opened = replica::SafetensorsFile::open(file.path());
  if (!taken(opened)) return false;
  std::vector<float> values(2);
  (void)opened->read("x", {2}, values);
  return true;
}

bool try_event_stream(std::string_view text) {
  std::size_t events = 0, most = 0;
  const cli::EventReader::Sink sink = [&](const std::string&, const std::string& data) {
    most = std::max(most, data.size());
    return ++events < 1000;
  };
  cli::EventReader reader(sink);
  const std::size_t cut = text.size() / 3;
  if (reader.feed(text.substr(0, cut))) reader.feed(text.substr(cut));
  SHOAL_CHECK(most <= cli::EventReader::kEventMax);
  return events > 0;
}

// A tokenizer that is taken encodes texts into tokens that it has.
bool try_tokenizer(std::string_view text) {
  const auto tokenizer = tokenizer::parse_tokenizer(text, "fuzz");
  if (!taken(tokenizer)) return false;
  std::vector<tokenizer::TokenId> ids = (*tokenizer)->frame().before;
  const auto encoder = (*tokenizer)->encoder();
  for (const char* one : {"ab a  b\n", "\xC3\xA9\xCC\x81\xE2\x96\x81", "", "\xFF"}) {
    (void)encoder->encode(one, ids);
  }
  for (const tokenizer::TokenId id : ids) {
    SHOAL_CHECK(id < (*tokenizer)->vocabulary(), "a token beyond the vocabulary");
  }
  (void)(*tokenizer)->decode(ids, true);
  (void)(*tokenizer)->safe_cut(text, text.size());
  return true;
}

// ---- files, and what their servers say

bool try_manifest(std::string_view text) {
  const auto manifest = data::parse_manifest(text);
  if (!taken(manifest)) return false;
  const auto again = data::parse_manifest(data::to_text(*manifest));
  SHOAL_CHECK(again.ok() && *again == *manifest, "a manifest that is not itself any more");
  for (const data::Shard& shard : manifest->shards) {
    const std::int64_t chunks = data::chunk_count(shard, manifest->chunk_bytes);
    SHOAL_CHECK(data::bytes_of_chunk(shard, manifest->chunk_bytes, chunks - 1) > 0);
  }
  SHOAL_CHECK(data::total_tokens(*manifest) > 0, "a dataset of nothing");
  return true;
}

// A bundle that is taken is the one that its files give.
bool try_bundle(std::string_view bytes) {
  namespace fs = std::filesystem;
  static const std::string kRoot = "/dev/shm/shoal-fuzz-" + std::to_string(::getpid());
  const Status unpacked = unpack_bundle(bytes, kRoot);
  if (!unpacked.ok()) {
    SHOAL_CHECK(!fs::exists(kRoot), "a bundle that is refused leaves something");
    return taken(Result<bool>(unpacked.error()));
  }
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot)) {
    SHOAL_CHECK(entry.is_directory() || entry.is_regular_file(), "more than files");
    if (!entry.is_directory()) paths.push_back(fs::relative(entry.path(), kRoot).string());
  }
  const auto again = pack_bundle(kRoot, paths);
  SHOAL_CHECK(again.ok() && *again == bytes, "a bundle in two forms");
  fs::remove_all(kRoot);
  return true;
}

bool try_object_store(std::string_view xml) {
  const auto parts = objects::read_parts(xml);
  if (taken(parts)) {
    for (const auto& part : parts->parts) SHOAL_CHECK(part.number > 0 && part.size.count() >= 0);
  }
  SHOAL_CHECK(objects::read_reason(xml).size() <= kErrorMost, "an endless sentence");
  const bool completed = objects::read_completed(xml).ok();
  const bool listed = taken(objects::read_objects(xml)) || taken(objects::read_uploads(xml));
  return taken(objects::read_upload_id(xml)) || listed || completed || parts.ok();
}

bool try_location(std::string_view text) {
  const auto location = objects::read_location(std::string(text), "store");
  if (!taken(location)) return false;
  SHOAL_CHECK(objects::url_of(*location, "a").starts_with("http"), "a store without a URL");
  return true;
}

// The first byte is the size of the file.
bool try_asked_range(std::string_view text) {
  using coordinator::rest::AskedRange;
  if (text.empty()) return false;
  const std::int64_t size = static_cast<unsigned char>(text.front());
  const AskedRange range = coordinator::rest::read_range(text.substr(1), size);
  if (range.kind != AskedRange::kPart) return false;
  SHOAL_CHECK(range.first >= 0 && range.length > 0 && range.length <= size - range.first,
              "a part outside the file");
  return true;
}

bool try_content_range(std::string_view text) {
  const auto range = objects::read_content_range(text);
  SHOAL_CHECK(!range ||
              (range->first >= 0 && range->first <= range->last && range->last < range->whole));
  return range.has_value();
}

bool try_relay_word(std::string_view text) {
  namespace relay = wire::relay;
  const auto word = relay::decode(text);
  if (!taken(word)) return false;
  const auto again = relay::decode(relay::encode(*word));
  SHOAL_CHECK(again.ok() && again->index() == word->index(), "a word that is another one now");
  return true;
}

bool try_file_text(Parser parser, std::string_view text) {
  switch (parser) {
    case Parser::kManifest:
      return try_manifest(text);
    case Parser::kBundle:
      return try_bundle(text);
    case Parser::kObjectStore:
      return try_object_store(text);
    case Parser::kLocation:
      return try_location(text);
    case Parser::kCredentials:
      return taken(objects::read_credentials(std::string(text)));
    case Parser::kAskedRange:
      return try_asked_range(text);
    case Parser::kContentRange:
      return try_content_range(text);
    case Parser::kRelayWord:
      return try_relay_word(text);
    default:
      return try_event_stream(text);
  }
}

bool try_text(Parser parser, std::string_view text) {
  switch (parser) {
    case Parser::kJobToml:
      return spec_taken(proto::read_spec_toml(text));
    case Parser::kJobJson:
      return spec_taken(proto::read_spec_json(text));
    case Parser::kKeptJob:
      return spec_taken(proto::read_kept_spec(text));
    case Parser::kAgentMessage:
      return try_agent_message(text);
    case Parser::kCoordinatorMessage:
      return try_message<v1::CoordinatorMessage>(
          text, [](const v1::CoordinatorMessage& m) { return proto::read(m); });
    case Parser::kTrainerMessage:
      return try_message<v1::TrainerMessage>(
          text, [](const v1::TrainerMessage& m) { return proto::read(m); });
    case Parser::kTrainerCommand:
      return try_message<v1::TrainerCommand>(
          text, [](const v1::TrainerCommand& m) { return proto::read(m); });
    case Parser::kCsr:
      return taken(identity::SigningRequest::parse(text));
    case Parser::kChain:
      return try_chain(text);
    case Parser::kJoinToken:
      return try_token(text, [](std::string_view t) { return identity::parse_join_token(t); });
    case Parser::kApiToken:
      return try_token(text, [](std::string_view t) { return identity::parse_api_token(t); });
    case Parser::kTarget:
      return try_target(text);
    case Parser::kLinkOptions:
      return taken(parse_link(text));
    case Parser::kTokenizer:
      return try_tokenizer(text);
    default:
      return try_file_text(parser, text);
  }
}

}  // namespace

bool try_parser(Bytes bytes) {
  // protobuf prints a line for each text that is none.
  [[maybe_unused]] static google::protobuf::LogHandler* const kBefore =
      google::protobuf::SetLogHandler(nullptr);
  if (bytes.empty()) return false;
  const auto parser = static_cast<Parser>(std::to_integer<int>(bytes.front()) % kParsers);
  bytes = bytes.subspan(1);
  if (parser == Parser::kStreamHeader) return try_stream_header(bytes);
  if (parser == Parser::kStreamHello) return try_stream_hello(bytes);
  if (parser == Parser::kStreamReason) return try_stream_reason(bytes);
  if (parser == Parser::kSafetensors) return try_safetensors(bytes);
  return try_text(parser, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace shoal::fuzz
