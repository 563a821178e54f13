// A bucket of an S3 API beneath a prefix: what is kept there is named by keys below it. Reads by
// range, writes whole objects and objects in parts, lists and deletes; and makes URLs with which
// somebody without a key may do one thing for a while (presign.h).
//
// Bytes of what is sent are checked by the server where it can (Content-MD5). Uploads in parts
// continue: the server knows which parts it has. Requests are tried again as http.h says.
//
// Errors are those of http.h, with the answer's own words; kNotFound names the object, or the
// bucket.
//
// Threads: any number may use one bucket at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "objects/credentials.h"
#include "objects/http.h"
#include "objects/location.h"

namespace shoal::objects {

struct ObjectInfo {
  std::string key;  // below the prefix
  Bytes size;
  std::string etag;
  std::map<std::string, std::string> metadata;  // x-amz-meta-…, of head() alone
};

struct Part {
  int number = 0;  // from 1 on
  Bytes size;
  std::string etag;
  bool operator==(const Part&) const = default;
};

// Where the parts of an object begin and end.
struct PartPlan {
  Bytes size, part;
  int count() const;  // at least 1, at most kPartsMax
  Bytes offset(int number) const { return Bytes(part.count() * (number - 1)); }
  Bytes length(int number) const;
};
inline constexpr int kPartsMax = 10'000;
PartPlan plan_parts(Bytes size, Bytes part);

class Bucket {
 public:
  static constexpr Duration kOwnLife = seconds(900);  // of the URLs that it uses itself

  Bucket(Location location, ClientOptions options, std::shared_ptr<CredentialSource> credentials);

  const Location& location() const { return location_; }
  std::string shown(const std::string& key) const {
    return objects::shown(location_, location_.prefix + key);
  }
  const Client& client() const { return client_; }
  void stop() { client_.stop(); }  // as Client::stop()

  // Whether the bucket is there and answers us: one listing of one object.
  Status check() const;

  Result<ObjectInfo> head(const std::string& key) const;
  Status get(const std::string& key, const Client::Range& range, const Client::Sink& sink) const;
  Result<std::string> get_text(const std::string& key) const;  // of at most Client::kAnswerMax
  Status put(const std::string& key, const Body& body, const Headers& metadata = {}) const;
  Status remove(const std::string& key) const;  // also when it is not there
  // In the order of their keys. `take` returns false to stop.
  Status list(const std::string& prefix, const std::function<bool(const ObjectInfo&)>& take) const;
  Status remove_all(const std::string& prefix) const;  // objects and unfinished uploads

  // ---- in parts
  Result<std::string> begin_upload(const std::string& key, const Headers& metadata = {}) const;
  // kNotFound: there is no such upload; it was completed, given up, or has expired.
  Result<std::vector<Part>> parts(const std::string& key, const std::string& upload) const;
  Result<Part> put_part(const std::string& key, const std::string& upload, int number,
                        const Body& body) const;
  // All parts, in order. The object is there from then on, and not before.
  Status complete(const std::string& key, const std::string& upload,
                  const std::vector<Part>& parts) const;
  Status give_up(const std::string& key, const std::string& upload) const;
  // Uploads in progress below a prefix: (key, upload).
  Result<std::vector<std::pair<std::string, std::string>>> uploads(const std::string& prefix) const;

  // A file of any size, in parts where it is larger than one. An earlier upload of the same key
  // continues if its parts have the sizes that they must have: so the key must name the content.
  Status put_file(const std::string& key, int descriptor, Bytes size,
                  const Headers& metadata = {}) const;

  // ---- for others
  Result<std::string> url_to_get(const std::string& key, Duration life) const;
  Result<std::string> url_to_put(const std::string& key, const Headers& metadata,
                                 Duration life) const;
  Result<std::string> url_to_put_part(const std::string& key, const std::string& upload, int number,
                                      Duration life) const;

 private:
  Result<std::string> sign(ToSign request) const;
  Result<Answer> ask(const ToSign& request, const std::optional<Body>& body = {}) const;
  Result<std::string> upload_to_go_on_with(const std::string& key, const PartPlan& plan,
                                           const Headers& metadata, std::vector<Part>& there) const;

  const Location location_;
  const std::shared_ptr<CredentialSource> credentials_;
  Client client_;
};

// Base64 of the MD5 of a body, which is read for it.
Result<std::string> md5_of(const Body& body);

}  // namespace shoal::objects
