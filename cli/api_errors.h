// From an HTTP answer to an Error that a person can act on (RFC 9457 problem documents), and from
// an Error to the exit code of the process. Both tables are closed and documented in docs/cli.md.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "cli/http_client.h"

namespace shoal::cli {

// The exit codes of every command. 130 is an interrupt.
enum Exit : int {
  kExitOk = 0,
  kExitFailure = 1,
  kExitUsage = 2,
  kExitNotFound = 3,
  kExitAuth = 4,
  kExitConflict = 5,
  kExitValidation = 6,
  kExitUnreachable = 7,
  kExitTimeout = 8,
  kExitJobFailed = 9,
  kExitInterrupted = 130,
};
Exit exit_code_of(Code code);

// Where a JSON pointer of a refused field is in the user's own text ("kjv.toml:14: "), or nothing.
using Locate = std::function<std::string(const std::string& pointer)>;

// The Error of an answer that is not 2xx: the problem's detail, one line per refused field, the
// hint.
Error error_of_response(const HttpResponse& response, const Locate& locate = {});

// A refusal of fields with what is wrong besides, as one more line. Any other error as it is.
Error with_refusal(Error refusal, const Error& also);

}  // namespace shoal::cli
