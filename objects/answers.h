// What an S3 API answers, in XML. Answers are small (Client::kAnswerMax) and not trusted: whatever
// is no such answer is kIncompatible, and names what was expected. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace shoal::objects {

struct ListedObject {
  std::string key;
  Bytes size;
  std::string etag;
};
struct ObjectPage {
  std::vector<ListedObject> objects;
  std::string next;  // the token of the next page; empty: this is the last one
};
Result<ObjectPage> read_objects(std::string_view xml);  // ListObjectsV2

struct UploadPage {
  std::vector<std::pair<std::string, std::string>> uploads;  // key, upload id
  std::string next_key, next_upload;                         // empty: this is the last one
};
Result<UploadPage> read_uploads(std::string_view xml);  // ListMultipartUploads

struct ListedPart {
  int number = 0;
  Bytes size;
  std::string etag;
};
struct PartPage {
  std::vector<ListedPart> parts;
  int next = 0;  // after this number; 0: this is the last page
};
Result<PartPage> read_parts(std::string_view xml);  // ListParts

Result<std::string> read_upload_id(std::string_view xml);  // CreateMultipartUpload

// Status 200 and an error in the body: so CompleteMultipartUpload says that it failed late.
Status read_completed(std::string_view xml);

// "NoSuchBucket: The specified bucket does not exist"; empty: the body says nothing.
std::string read_reason(std::string_view xml);

// The body of CompleteMultipartUpload.
std::string completion(const std::vector<std::pair<int, std::string>>& parts);

}  // namespace shoal::objects
