#include "cli/commands/remote_files.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/http_client.h"
#include "objects/bucket.h"
#include "objects/location.h"

namespace shoal::cli {
namespace {

constexpr const char* kField = "FILES";

// The person who adds a dataset may read what they can reach; agents have rules of their own.
objects::ClientOptions reach_all() {
  return {.reach = {.clear_allowed = true, .private_allowed = true, .proxy = outbound_proxy()}};
}

const objects::Client& web() {
  static const objects::Client kClient(reach_all());
  return kClient;
}

Result<std::unique_ptr<objects::Bucket>> open_bucket(objects::Location location,
                                                     const std::string& credentials) {
  auto key = objects::CredentialSource::open(credentials, "--credentials");
  if (!key) return key.error();
  return std::make_unique<objects::Bucket>(std::move(location), reach_all(), std::move(*key));
}

std::string query_of(const std::string& url) {
  const std::size_t question = url.find('?');
  return question == std::string::npos ? "" : url.substr(question);
}

bool is_prefix(const std::string& file) {
  return objects::is_object(file) && file.substr(0, file.find('?')).ends_with('/');
}

Result<std::vector<std::string>> objects_beneath(const std::string& prefix,
                                                 const std::string& credentials) {
  auto location = objects::read_location(prefix, kField);
  if (!location) return location.error();
  const std::string above = "s3://" + location->bucket + "/" + location->prefix;
  auto bucket = open_bucket(std::move(*location), credentials);
  if (!bucket) return bucket.error();
  std::vector<std::string> found;
  const Status listed = (*bucket)->list("", [&](const objects::ObjectInfo& object) {
    if (object.size.count() > 0) found.push_back(above + object.key + query_of(prefix));
    return true;
  });
  if (!listed.ok()) return listed.error();
  if (!found.empty()) return found;
  return Error{Code::kNotFound, "nothing lies beneath " + above, kField, "name another prefix"};
}

}  // namespace

bool is_remote(const std::string& file) {
  return file.starts_with("https://") || file.starts_with("http://") || objects::is_object(file);
}

std::string last_part(const std::string& file) {
  const std::string path = is_remote(file) ? file.substr(0, file.find_first_of("?#")) : file;
  return std::filesystem::path(path).filename().string();
}

Result<std::vector<std::string>> RemoteFiles::expanded(
    const std::vector<std::string>& files) const {
  std::vector<std::string> all;
  for (const std::string& file : files) {
    if (!is_prefix(file)) {
      all.push_back(file);
      continue;
    }
    const auto beneath = objects_beneath(file, credentials_);
    if (!beneath) return beneath.error();
    all.insert(all.end(), beneath->begin(), beneath->end());
  }
  return all;
}

Result<std::int64_t> RemoteFiles::size(const std::string& file) const {
  if (objects::is_object(file)) {
    auto place = objects::read_object(file, kField);
    if (!place) return place.error();
    const auto bucket = open_bucket(std::move(place->location), credentials_);
    if (!bucket) return bucket.error();
    const auto object = (*bucket)->head(place->key);
    if (!object) return object.error();
    return object->size.count();
  }
  const auto answer = web().send(objects::Request{.method = "HEAD", .url = file});
  if (!answer) return answer.error();
  const auto length = objects::content_length(*answer);
  if (length) return length->count();
  return Error{Code::kValidation, objects::shown_url(file) + " does not say its length", kField,
               "download it, and add the file"};
}

Status RemoteFiles::read(const std::string& file, std::int64_t size,
                         const objects::Client::Sink& sink) const {
  const objects::Client::Range range{.from = Bytes(), .size = Bytes(size), .whole = Bytes(size)};
  if (objects::is_object(file)) {
    auto place = objects::read_object(file, kField);
    if (!place) return place.error();
    const auto bucket = open_bucket(std::move(place->location), credentials_);
    if (!bucket) return bucket.error();
    return (*bucket)->get(place->key, range, sink);
  }
  const auto got = web().get(objects::Request{.url = file}, range, sink);
  return got.ok() ? Status() : Status(got.error());
}

}  // namespace shoal::cli
