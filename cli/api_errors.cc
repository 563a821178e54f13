// The server words its problems; this file only arranges them.
#include "cli/api_errors.h"

#include <nlohmann/json.hpp>

namespace shoal::cli {
namespace {

using nlohmann::json;

Code code_of_status(int status) {
  switch (status) {
    case 400:
    case 413:
    case 415:
    case 422:
      return Code::kValidation;
    case 401:
      return Code::kUnauthenticated;
    case 403:
      return Code::kPermissionDenied;
    case 404:
      return Code::kNotFound;
    case 409:
    case 410:
    case 412:
    case 428:
      return Code::kConflict;
    case 429:
      return Code::kResourceExhausted;
    case 502:
    case 503:
      return Code::kUnavailable;
    case 504:
      return Code::kDeadlineExceeded;
    default:
      return Code::kInternal;
  }
}

std::string text_of(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// "/train/lr" is how programs name a field, "train.lr" how the job file does.
std::string dotted(std::string pointer) {
  if (!pointer.empty() && pointer[0] == '/') pointer.erase(0, 1);
  for (char& c : pointer) c = c == '/' ? '.' : c;
  return pointer;
}

// The server names the place in the text that it got; the user's own is named before it.
std::string without_place(std::string detail) {
  const auto at = detail.rfind(" (line ");
  if (at != std::string::npos && detail.back() == ')') detail.erase(at);
  return detail;
}

// With a single field, the sentence repeats what the field's line says: drop it there.
std::string without_field(std::string sentence, const json& problem) {
  const auto errors = problem.find("errors");
  const bool one = errors != problem.end() && errors->is_array() && errors->size() == 1;
  const std::string pointer =
      one && errors->at(0).is_object() ? text_of(errors->at(0), "pointer") : "";
  const auto at = pointer.empty() ? std::string::npos : sentence.find(": " + pointer + " ");
  if (at != std::string::npos) sentence.erase(at);
  return sentence;
}

// Names the query parameter, which the sentence alone does not.
std::string parameter_of(const json& problem) {
  constexpr std::string_view kQuery = "/query/";
  const auto errors = problem.find("errors");
  if (errors == problem.end() || !errors->is_array() || errors->size() != 1) return {};
  const std::string pointer = errors->at(0).is_object() ? text_of(errors->at(0), "pointer") : "";
  return pointer.starts_with(kQuery) ? pointer.substr(kQuery.size()) : std::string();
}

// Each field has a line of its own below the sentence.
constexpr std::string_view kNewLine = "\n  ";

// "\n  mine.toml:1: name: SENTENCE": all that is said, and where.
bool is_one_line_with(const std::string& lines, const std::string& sentence) {
  return lines.ends_with(": " + sentence) && lines.rfind(kNewLine) == 0;
}

// A line says more than the sentence: which field, where it is written, or what is wrong there.
std::string lines_of_fields(const json& problem, const std::string& sentence,
                            const Locate& locate) {
  std::string lines;
  const auto errors = problem.find("errors");
  if (errors == problem.end() || !errors->is_array()) return lines;
  for (const json& error : *errors) {
    if (!error.is_object()) continue;
    const std::string pointer = text_of(error, "pointer");
    const std::string where = locate ? locate(pointer) : std::string();
    const std::string name = dotted(pointer);
    const std::string detail = text_of(error, "detail");
    if (where.empty() && detail == sentence) continue;
    lines += "\n  " + where + (name.empty() ? "" : name + ": ") +
             (where.empty() ? detail : without_place(detail));
  }
  return lines;
}

}  // namespace

Exit exit_code_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return kExitUsage;
    case Code::kValidation:
      return kExitValidation;
    case Code::kNotFound:
      return kExitNotFound;
    case Code::kUnauthenticated:
    case Code::kPermissionDenied:
      return kExitAuth;
    case Code::kConflict:
      return kExitConflict;
    case Code::kUnavailable:
      return kExitUnreachable;
    case Code::kDeadlineExceeded:
      return kExitTimeout;
    case Code::kCancelled:
      return kExitInterrupted;
    case Code::kResourceExhausted:
    case Code::kIncompatible:
    case Code::kDataLoss:
    case Code::kInternal:
      return kExitFailure;
  }
  return kExitFailure;
}

Error error_of_response(const HttpResponse& response, const Locate& locate) {
  const json problem = json::parse(response.body, nullptr, false);
  if (!problem.is_object()) {
    return {
        code_of_status(response.status),
        "the coordinator answered HTTP " + std::to_string(response.status) + " without saying why",
        "", "is that address a Shoal coordinator?"};
  }
  std::string message = text_of(problem, "detail");
  if (message.empty()) message = text_of(problem, "title");
  if (message.empty()) message = "HTTP " + std::to_string(response.status);
  const Code code = code_of_status(response.status);
  const std::string lines = lines_of_fields(problem, message, locate);
  const bool repeats = code == Code::kConflict && is_one_line_with(lines, message);
  return {code, repeats ? lines.substr(kNewLine.size()) : without_field(message, problem) + lines,
          parameter_of(problem), text_of(problem, "hint")};
}

Error with_refusal(Error refusal, const Error& also) {
  const std::size_t first = refusal.message.find("\n  ");
  if (refusal.code != Code::kValidation || first == std::string::npos) return refusal;
  const std::string lines = refusal.message.substr(first) + "\n  " + also.message;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = lines.find("\n  ", at)) != std::string::npos; ++at) ++count;
  refusal.message = std::to_string(count) + " fields are not accepted" + lines;
  return refusal;
}

}  // namespace shoal::cli
