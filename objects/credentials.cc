#include "objects/credentials.h"

#include <cstdlib>
#include <sstream>

#include "base/text.h"
#include "identity/private_file.h"
#include "threads/clock.h"

namespace shoal::objects {
namespace {

constexpr Duration kReadEvery = seconds(60);

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<Credentials> read_credentials(const std::string& text) {
  Credentials found;
  bool counts = true;  // in the section [default], or before any
  std::istringstream lines(text);
  for (std::string raw; std::getline(lines, raw);) {
    const std::string line(trimmed(raw));
    if (line.starts_with('[')) counts = line == "[default]";
    const std::size_t equals = line.find('=');
    if (!counts || line.starts_with('#') || line.starts_with(';') || equals == line.npos) continue;
    const std::string name(trimmed(std::string_view(line).substr(0, equals)));
    const std::string value(trimmed(std::string_view(line).substr(equals + 1)));
    if (name == "aws_access_key_id") found.key_id = value;
    if (name == "aws_secret_access_key") found.secret = value;
    if (name == "aws_session_token") found.session_token = value;
  }
  if (!found.key_id.empty() && !found.secret.empty()) return found;
  return Error{Code::kInvalidArgument,
               found.key_id.empty() ? "has no aws_access_key_id" : "has no aws_secret_access_key",
               "", "write both, as in ~/.aws/credentials, beneath [default]"};
}

Result<std::unique_ptr<CredentialSource>> CredentialSource::open(std::string file,
                                                                 std::string field) {
  std::unique_ptr<CredentialSource> source(new CredentialSource(std::move(file), std::move(field)));
  if (const auto first = source->current(); !first.ok()) return first.error();
  return source;
}

Result<Credentials> CredentialSource::read() const {
  if (file_.empty()) {
    Credentials found{variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"),
                      variable("AWS_SESSION_TOKEN")};
    if (!found.key_id.empty() && !found.secret.empty()) return found;
    return Error{Code::kNotFound, "there is no key for the object store", field_,
                 "name a file with mode 0600, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"};
  }
  const auto text = identity::read_private_file(file_);
  if (!text.ok()) return text.error();
  auto found = read_credentials(text.value());
  if (found.ok()) return found;
  Error error = found.error();
  error.field = file_;
  return error;
}

Result<Credentials> CredentialSource::current() {
  const MutexLock lock(mutex_);
  const Instant now = steady_now();
  if (!last_.key_id.empty() && (file_.empty() || now - read_at_ < kReadEvery)) return last_;
  auto found = read();
  read_at_ = now;
  if (found.ok()) {
    last_ = found.value();
  } else if (last_.key_id.empty()) {
    return found.error();
  }
  return last_;
}

}  // namespace shoal::objects
