// The key of an object store: from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
// AWS_SESSION_TOKEN), or from a file as the AWS tools have it, with mode 0600. It is in no job, no
// log and no message.
//
// Threads: any.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "objects/presign.h"
#include "threads/mutex.h"

namespace shoal::objects {

class CredentialSource {
 public:
  // `file` empty: the environment, which is read once. Errors are those of current().
  static Result<std::unique_ptr<CredentialSource>> open(std::string file, std::string field);

  // A file is read again at most once a minute, so that a key can be replaced while we run; what
  // cannot be read then is no reason to forget the last one. kNotFound: there is none;
  // kPermissionDenied: others can read the file; kInvalidArgument: it is of another form.
  Result<Credentials> current();

 private:
  CredentialSource(std::string file, std::string field)
      : file_(std::move(file)), field_(std::move(field)) {}
  Result<Credentials> read() const;

  const std::string file_, field_;
  Mutex mutex_;
  Credentials last_ SHOAL_GUARDED_BY(mutex_);
  Instant read_at_ SHOAL_GUARDED_BY(mutex_);
};

// "[default]", "aws_access_key_id = …", "aws_secret_access_key = …", "aws_session_token = …"; other
// sections and keys are skipped, as are comments. kInvalidArgument: one of the first two is
// missing.
Result<Credentials> read_credentials(const std::string& text);

}  // namespace shoal::objects
