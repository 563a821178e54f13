#include "coordinator/store/json_fields.h"

#include <limits>

#include "proto/job_spec_text.h"

namespace shoal::coordinator {

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Error bad_json(std::string_view text, const std::string& why) {
  return {.code = Code::kDataLoss,
          .message =
              "a stored value cannot be read: " + why + " in " + std::string(text.substr(0, 200)),
          .remedy = "restore state.db from a backup (docs/backup.md)"};
}

void refuse_json(const std::string& why) { throw Json::other_error::create(501, why, nullptr); }

double read_number(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Json digest_json(const Digest& digest) { return digest ? Json(to_hex(digest)) : Json(""); }

Digest read_digest(const Json& json) {
  const auto text = json.get<std::string>();
  if (text.empty()) return {};
  const auto digest = parse_digest(text);
  if (!digest) refuse_json("not a digest: " + text);
  return *digest;
}

std::string to_json(const JobSpec& value) {
  const Json json = proto::spec_to_json(value);
  return dump(json);
}

Status from_json(std::string_view text, JobSpec& value) {
  proto::SpecOrProblems read = proto::read_kept_spec(text);
  if (read.problems) {
    std::string why = read.problems->summary;
    for (const FieldError& field : read.problems->fields) {
      why += "; " + field.pointer + ": " + field.detail;
    }
    return bad_json(text, why);
  }
  value = std::move(read.spec);
  return {};
}

}  // namespace shoal::coordinator
