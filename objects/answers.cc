#include "objects/answers.h"

#include <charconv>
#include <sstream>

#include <pugixml.hpp>

namespace shoal::objects {
namespace {

Error unexpected(const std::string& wanted) {
  return {Code::kIncompatible, "the object store did not answer with " + wanted, "",
          "check that the endpoint is one of an S3 API"};
}

// The root of that name.
Result<pugi::xml_document> parse(std::string_view xml, const char* root) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed || std::string_view(document.document_element().name()) != root)
    return unexpected(root);
  return document;
}

std::optional<std::int64_t> read_number(std::string_view text) {
  std::int64_t number = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size() || number < 0) return {};
  return number;
}

bool is_truncated(const pugi::xml_node& root) {
  return std::string_view(root.child_value("IsTruncated")) == "true";
}

}  // namespace

Result<ObjectPage> read_objects(std::string_view xml) {
  const auto document = parse(xml, "ListBucketResult");
  if (!document.ok()) return document.error();
  const auto root = document.value().document_element();
  ObjectPage page;
  for (const auto& node : root.children("Contents")) {
    const auto size = read_number(node.child_value("Size"));
    ListedObject object{node.child_value("Key"), Bytes(size.value_or(0)), node.child_value("ETag")};
    if (!size || object.key.empty()) return unexpected("a list of objects");
    page.objects.push_back(std::move(object));
  }
  if (is_truncated(root)) {
    page.next = root.child_value("NextContinuationToken");
    if (page.next.empty()) return unexpected("the token of the next page");
  }
  return page;
}

Result<UploadPage> read_uploads(std::string_view xml) {
  const auto document = parse(xml, "ListMultipartUploadsResult");
  if (!document.ok()) return document.error();
  const auto root = document.value().document_element();
  UploadPage page;
  for (const auto& node : root.children("Upload")) {
    page.uploads.emplace_back(node.child_value("Key"), node.child_value("UploadId"));
    if (page.uploads.back().second.empty()) return unexpected("a list of uploads");
  }
  if (is_truncated(root)) {
    page.next_key = root.child_value("NextKeyMarker");
    page.next_upload = root.child_value("NextUploadIdMarker");
    if (page.next_key.empty()) return unexpected("the key of the next page");
  }
  return page;
}

Result<PartPage> read_parts(std::string_view xml) {
  const auto document = parse(xml, "ListPartsResult");
  if (!document.ok()) return document.error();
  const auto root = document.value().document_element();
  PartPage page;
  for (const auto& node : root.children("Part")) {
    const auto number = read_number(node.child_value("PartNumber"));
    const auto size = read_number(node.child_value("Size"));
    ListedPart part{static_cast<int>(number.value_or(0)), Bytes(size.value_or(0)),
                    node.child_value("ETag")};
    if (!size || part.number < 1 || part.number > 10'000 || part.etag.empty())
      return unexpected("a list of parts");
    page.parts.push_back(std::move(part));
  }
  if (is_truncated(root)) {
    page.next = static_cast<int>(read_number(root.child_value("NextPartNumberMarker")).value_or(0));
    if (page.next == 0) return unexpected("the number of the next page");
  }
  return page;
}

Result<std::string> read_upload_id(std::string_view xml) {
  const auto document = parse(xml, "InitiateMultipartUploadResult");
  if (!document.ok()) return document.error();
  std::string id = document.value().document_element().child_value("UploadId");
  if (id.empty()) return unexpected("the id of an upload");
  return id;
}

Status read_completed(std::string_view xml) {
  if (parse(xml, "CompleteMultipartUploadResult").ok()) return {};
  const std::string reason = read_reason(xml);
  if (reason.empty()) return unexpected("CompleteMultipartUploadResult");
  return Error{Code::kUnavailable, "the object store did not put the parts together: " + reason, "",
               ""};
}

std::string read_reason(std::string_view xml) {
  const auto document = parse(xml, "Error");
  if (!document.ok()) return {};
  const auto root = document.value().document_element();
  const std::string code = root.child_value("Code"), message = root.child_value("Message");
  return message.empty() ? code : code + ": " + message;
}

std::string completion(const std::vector<std::pair<int, std::string>>& parts) {
  pugi::xml_document document;
  auto root = document.append_child("CompleteMultipartUpload");
  for (const auto& [number, etag] : parts) {
    auto node = root.append_child("Part");
    node.append_child("PartNumber").text().set(number);
    node.append_child("ETag").text().set(etag.c_str());
  }
  std::ostringstream text;
  document.save(text, "", pugi::format_raw | pugi::format_no_declaration);
  return text.str();
}

}  // namespace shoal::objects
