// The user that uploaded programs run as where the agent is root (--program-user). Landlock
// (confinement.h) keeps them from files; it does not keep root's processes from local services that
// trust root, such as those of containers and of the system.
//
// What such a program needs of the agent's folder, which is the agent's alone (0700), it gets by
// the group of its user: to pass through, to read its code and what was fetched, to write
// checkpoints.
#pragma once

#include <string>

#include <sys/types.h>

#include "base/result.h"

namespace shoal::agent {

struct ProgramUser {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
};

// kValidation, with the field --program-user: there is no such user, it is root, or this process is
// not root.
Result<ProgramUser> find_program_user(const std::string& name);

// For this process and all that it will start, for good. Safe between fork and exec. An errno, or
// 0.
int become(const ProgramUser& user);

// Whether the user can enter `folder`, an absolute path, by trying it in a child process for ten
// seconds at most. kValidation, with the field --program-user, names the first folder on the way
// that keeps it out.
Status check_reach(const std::string& folder, const ProgramUser& user);

// Give rights to the group of the user. Links are left alone.
Status let_pass(const std::string& folder, const ProgramUser& user);
Status let_read(const std::string& tree, const ProgramUser& user);   // and run
Status let_write(const std::string& path, const ProgramUser& user);  // a folder or a socket
Status give(const std::string& tree, const ProgramUser& user);       // it becomes the user's own

}  // namespace shoal::agent
