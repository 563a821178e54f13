#include "objects/bucket.h"

#include <algorithm>
#include <array>

#include <openssl/evp.h>

#include "base/base64.h"
#include "objects/answers.h"
#include "threads/clock.h"

namespace shoal::objects {
namespace {

constexpr std::size_t kDeleteAtOnce = 1'000;

std::map<std::string, std::string> as_map(const Headers& headers) {
  return {headers.begin(), headers.end()};
}

ClientOptions with_reason(ClientOptions options) {
  options.reason = read_reason;
  return options;
}

constexpr const char* kMetadata = "x-amz-meta-";

}  // namespace

int PartPlan::count() const {
  return std::max(1, static_cast<int>((size.count() + part.count() - 1) / part.count()));
}

Bytes PartPlan::length(int number) const { return std::min(part, size - offset(number)); }

PartPlan plan_parts(Bytes size, Bytes part) {
  const std::int64_t least = (size.count() + kPartsMax - 1) / kPartsMax;
  if (least <= part.count()) return {size, part};
  constexpr std::int64_t kRound = std::int64_t{1} << 20;
  return {size, Bytes((least + kRound - 1) / kRound * kRound)};
}

Result<std::string> md5_of(const Body& body) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!hash || EVP_DigestInit_ex(hash.get(), EVP_md5(), nullptr) != 1)
    return Error{Code::kInternal, "this host's OpenSSL has no MD5", "", ""};
  std::vector<std::byte> buffer(std::size_t{256} << 10);
  for (std::int64_t at = 0; at < body.size.count();) {
    const auto length =
        std::min<std::int64_t>(static_cast<std::int64_t>(buffer.size()), body.size.count() - at);
    const auto piece = std::span(buffer).first(static_cast<std::size_t>(length));
    if (Status s = body.read(at, piece); !s.ok()) return s.error();
    EVP_DigestUpdate(hash.get(), piece.data(), piece.size());
    at += length;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  EVP_DigestFinal_ex(hash.get(), digest.data(), &size);
  return base64({reinterpret_cast<const char*>(digest.data()), size});
}

Bucket::Bucket(Location location, ClientOptions options,
               std::shared_ptr<CredentialSource> credentials)
    : location_(std::move(location)),
      credentials_(std::move(credentials)),
      client_(with_reason(std::move(options))) {}

// ---- requests

Result<std::string> Bucket::sign(ToSign request) const {
  const auto credentials = credentials_->current();
  if (!credentials.ok()) return credentials.error();
  return presign(location_, credentials.value(), request, unix_now());
}

Result<Answer> Bucket::ask(const ToSign& request, const std::optional<Body>& body) const {
  Headers headers(request.headers.begin(), request.headers.end());
  if (body && body->size.count() > 0) {
    auto md5 = md5_of(*body);
    if (!md5.ok()) return md5.error();
    headers.emplace_back("Content-MD5", std::move(md5).value());
  }
  const auto make = [&]() -> Result<Request> {
    auto url = sign(request);
    if (!url.ok()) return url.error();
    return Request{request.method, std::move(url).value(), headers, body};
  };
  auto answer = client_.send(make);
  if (answer.ok()) return answer;
  Error error = answer.error();
  if (error.code == Code::kNotFound) error.field = objects::shown(location_, request.key);
  return error;
}

Status Bucket::check() const {
  const auto answer =
      ask({.method = "GET",
           .key = "",
           .query = {{"list-type", "2"}, {"max-keys", "1"}, {"prefix", location_.prefix}},
           .headers = {},
           .life = kOwnLife});
  if (!answer.ok()) return answer.error();
  const auto page = read_objects(answer.value().body);
  return page.ok() ? Status() : Status(page.error());
}

Result<ObjectInfo> Bucket::head(const std::string& key) const {
  auto answer = ask({"HEAD", location_.prefix + key, {}, {}, kOwnLife});
  if (!answer.ok()) return answer.error();
  const auto size = content_length(answer.value());
  if (!size) return Error{Code::kIncompatible, shown(key) + " has no length", "", ""};
  const std::string* etag = answer.value().header("etag");
  ObjectInfo info{key, *size, etag == nullptr ? "" : *etag, {}};
  for (const auto& [name, value] : answer.value().headers) {
    if (name.starts_with(kMetadata)) info.metadata.emplace(name, value);
  }
  return info;
}

Status Bucket::get(const std::string& key, const Client::Range& range,
                   const Client::Sink& sink) const {
  const auto make = [&]() -> Result<Request> {
    auto url = url_to_get(key, kOwnLife);
    if (!url.ok()) return url.error();
    return Request{.method = "GET", .url = std::move(url).value(), .headers = {}, .body = {}};
  };
  const auto answer = client_.get(make, range, sink);
  if (answer.ok()) return {};
  Error error = answer.error();
  if (error.code == Code::kNotFound) error.field = shown(key);
  return error;
}

Result<std::string> Bucket::get_text(const std::string& key) const {
  std::string text;
  bool fits = true;
  const Status got = get(key, {}, [&](std::span<const std::byte> bytes) {
    fits = text.size() + bytes.size() <= Client::kAnswerMax;
    if (fits) text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return fits;
  });
  if (!fits) return Error{Code::kIncompatible, shown(key) + " is too large", "", ""};
  if (!got.ok()) return got.error();
  return text;
}

Status Bucket::put(const std::string& key, const Body& body, const Headers& metadata) const {
  const auto answer = ask({"PUT", location_.prefix + key, {}, as_map(metadata), kOwnLife}, body);
  return answer.ok() ? Status() : Status(answer.error());
}

Status Bucket::remove(const std::string& key) const {
  const auto answer = ask({"DELETE", location_.prefix + key, {}, {}, kOwnLife});
  if (answer.ok() || answer.error().code == Code::kNotFound) return {};
  return answer.error();
}

Status Bucket::list(const std::string& prefix,
                    const std::function<bool(const ObjectInfo&)>& take) const {
  std::string token;
  do {
    ToSign request{
        "GET", "", {{"list-type", "2"}, {"prefix", location_.prefix + prefix}}, {}, kOwnLife};
    if (!token.empty()) request.query["continuation-token"] = token;
    const auto answer = ask(request);
    if (!answer.ok()) return answer.error();
    auto page = read_objects(answer.value().body);
    if (!page.ok()) return page.error();
    for (const ListedObject& object : page.value().objects) {
      if (!object.key.starts_with(location_.prefix + prefix)) continue;  // not what was asked for
      const ObjectInfo info{
          object.key.substr(location_.prefix.size()), object.size, object.etag, {}};
      if (!take(info)) return {};
    }
    token = page.value().next;
  } while (!token.empty());
  return {};
}

// Object by object: the request for many at once is not understood everywhere.
Status Bucket::remove_all(const std::string& prefix) const {
  const auto begun = uploads(prefix);
  if (!begun.ok()) return begun.error();
  for (const auto& [key, upload] : begun.value()) {
    if (Status s = give_up(key, upload); !s.ok()) return s;
  }
  for (bool more = true; more;) {
    std::vector<std::string> keys;
    const Status listed = list(prefix, [&](const ObjectInfo& object) {
      keys.push_back(object.key);
      return keys.size() < kDeleteAtOnce;
    });
    if (!listed.ok()) return listed;
    for (const std::string& key : keys) {
      if (Status s = remove(key); !s.ok()) return s;
    }
    more = keys.size() == kDeleteAtOnce;
  }
  return {};
}

// ---- in parts

Result<std::string> Bucket::begin_upload(const std::string& key, const Headers& metadata) const {
  const auto answer = ask(
      {"POST", location_.prefix + key, {{"uploads", ""}}, as_map(metadata), kOwnLife}, body_of(""));
  if (!answer.ok()) return answer.error();
  return read_upload_id(answer.value().body);
}

Result<std::vector<Part>> Bucket::parts(const std::string& key, const std::string& upload) const {
  std::vector<Part> all;
  for (int after = 0;;) {
    ToSign request{"GET", location_.prefix + key, {{"uploadId", upload}}, {}, kOwnLife};
    if (after > 0) request.query["part-number-marker"] = std::to_string(after);
    const auto answer = ask(request);
    if (!answer.ok()) return answer.error();
    const auto page = read_parts(answer.value().body);
    if (!page.ok()) return page.error();
    for (const ListedPart& part : page.value().parts) {
      if (!all.empty() && part.number <= all.back().number)
        return Error{Code::kIncompatible, "the object store lists parts out of order", "", ""};
      all.push_back({part.number, part.size, part.etag});
    }
    if (page.value().next <= after) return all;
    after = page.value().next;
  }
}

Result<Part> Bucket::put_part(const std::string& key, const std::string& upload, int number,
                              const Body& body) const {
  const auto answer = ask({"PUT",
                           location_.prefix + key,
                           {{"partNumber", std::to_string(number)}, {"uploadId", upload}},
                           {},
                           kOwnLife},
                          body);
  if (!answer.ok()) return answer.error();
  const std::string* etag = answer.value().header("etag");
  if (etag == nullptr)
    return Error{Code::kIncompatible, "the object store gave a part no ETag", "", ""};
  return Part{number, body.size, *etag};
}

Status Bucket::complete(const std::string& key, const std::string& upload,
                        const std::vector<Part>& parts) const {
  std::vector<std::pair<int, std::string>> listed;
  for (const Part& part : parts) listed.emplace_back(part.number, part.etag);
  const auto answer = ask({"POST", location_.prefix + key, {{"uploadId", upload}}, {}, kOwnLife},
                          body_of(completion(listed)));
  return answer.ok() ? read_completed(answer.value().body) : Status(answer.error());
}

Status Bucket::give_up(const std::string& key, const std::string& upload) const {
  const auto answer = ask({"DELETE", location_.prefix + key, {{"uploadId", upload}}, {}, kOwnLife});
  if (answer.ok() || answer.error().code == Code::kNotFound) return {};
  return answer.error();
}

Result<std::vector<std::pair<std::string, std::string>>> Bucket::uploads(
    const std::string& prefix) const {
  std::vector<std::pair<std::string, std::string>> all;
  std::string key, upload;
  do {
    ToSign request{
        "GET", "", {{"uploads", ""}, {"prefix", location_.prefix + prefix}}, {}, kOwnLife};
    if (!key.empty()) request.query["key-marker"] = key;
    if (!upload.empty()) request.query["upload-id-marker"] = upload;
    const auto answer = ask(request);
    if (!answer.ok()) return answer.error();
    auto page = read_uploads(answer.value().body);
    if (!page.ok()) return page.error();
    for (auto& [name, id] : page.value().uploads) {
      if (!name.starts_with(location_.prefix + prefix)) continue;
      all.emplace_back(name.substr(location_.prefix.size()), std::move(id));
    }
    if (page.value().next_key == key && page.value().next_upload == upload) break;
    key = page.value().next_key;
    upload = page.value().next_upload;
  } while (!key.empty());
  return all;
}

// The newest upload whose parts are where they must be; else a new one.
Result<std::string> Bucket::upload_to_go_on_with(const std::string& key, const PartPlan& plan,
                                                 const Headers& metadata,
                                                 std::vector<Part>& there) const {
  const auto begun = uploads(key);
  if (!begun.ok()) return begun.error();
  for (const auto& [name, upload] : begun.value()) {
    if (name != key) continue;
    auto found = parts(key, upload);
    if (!found.ok()) continue;
    const bool fits = std::ranges::all_of(found.value(), [&](const Part& part) {
      return part.number <= plan.count() && part.size == plan.length(part.number);
    });
    if (!fits) continue;
    there = std::move(found).value();
    return upload;
  }
  return begin_upload(key, metadata);
}

Status Bucket::put_file(const std::string& key, int descriptor, Bytes size,
                        const Headers& metadata) const {
  const PartPlan plan = plan_parts(size, location_.part);
  if (plan.count() == 1) {
    const auto answer = ask({"PUT", location_.prefix + key, {}, as_map(metadata), kOwnLife},
                            body_of_file(descriptor, 0, size));
    return answer.ok() ? Status() : Status(answer.error());
  }
  std::vector<Part> there;
  const auto upload = upload_to_go_on_with(key, plan, metadata, there);
  if (!upload.ok()) return upload.error();
  for (int number = 1; number <= plan.count(); ++number) {
    const auto known = std::ranges::find(there, number, &Part::number);
    if (known != there.end()) continue;
    auto part =
        put_part(key, upload.value(), number,
                 body_of_file(descriptor, plan.offset(number).count(), plan.length(number)));
    if (!part.ok()) return part.error();
    there.push_back(std::move(part).value());
  }
  std::ranges::sort(there, {}, &Part::number);
  return complete(key, upload.value(), there);
}

// ---- for others

Result<std::string> Bucket::url_to_get(const std::string& key, Duration life) const {
  return sign({"GET", location_.prefix + key, {}, {}, life});
}

Result<std::string> Bucket::url_to_put(const std::string& key, const Headers& metadata,
                                       Duration life) const {
  return sign({"PUT", location_.prefix + key, {}, as_map(metadata), life});
}

Result<std::string> Bucket::url_to_put_part(const std::string& key, const std::string& upload,
                                            int number, Duration life) const {
  return sign({"PUT",
               location_.prefix + key,
               {{"partNumber", std::to_string(number)}, {"uploadId", upload}},
               {},
               life});
}

}  // namespace shoal::objects
