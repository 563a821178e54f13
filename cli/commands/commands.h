// The commands that ask the REST API. Each prints its data to stdout (a table, or with `json` the
// API's own objects) and returns the exit code; an Error is shown and mapped by main.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/api.h"
#include "cli/contexts.h"
#include "cli/job_file.h"

namespace shoal::cli {

struct Context {
  Api api;
  bool json = false;
};

struct SubmitOptions {
  std::string file;
  JobFileChanges changes;
  std::string from;  // begin_from.h; empty: as the file says
  std::string code;  // folder whose files are sent with it (send_code.h); empty: none
  bool wait = false;
  double timeout_s = 0;
};
// Sends the job file; what the API answers.
Result<Json> send_job(const Context& context, const JobFile& file, bool dry_run);
Result<Json> post_job(const Context& context, const SubmitOptions& options, bool dry_run);
Result<int> job_validate(const Context& context, const SubmitOptions& options);
Result<int> job_plan(const Context& context, const SubmitOptions& options);
Result<int> job_topology(const Context& context, const std::string& job);
Result<int> job_submit(const Context& context, const SubmitOptions& options);
// `search`: a text in the name or description; empty: all jobs.
Result<int> job_ls(const Context& context, const std::string& search);
// `why`: also how it is placed, and the move of a replica that was considered last.
Result<int> job_get(const Context& context, const std::string& job, bool why);
Result<int> job_spec(const Context& context, const std::string& job);  // as it was submitted
Result<int> job_watch(const Context& context, const std::string& job, double timeout_s);
Result<int> job_cancel(const Context& context, const std::string& job);
struct WaitOptions {
  bool wait = false;
  double timeout_s = 0;  // 0: none
};
// With wait: until it is paused, or trains again; or has ended.
Result<int> job_pause(const Context& context, const std::string& job, const WaitOptions& options);
Result<int> job_resume(const Context& context, const std::string& job, const WaitOptions& options);
// What is not given stays.
struct JobChanges {
  std::optional<double> outer_lr;
  std::optional<std::int64_t> priority;
};
Result<int> job_set(const Context& context, const std::string& job, const JobChanges& changes);
// A new job from the text of an old one.
struct AgainOptions {
  std::string job;
  JobFileChanges changes;
  std::string from;  // of a restart: a checkpoint, or a job; empty: the newest one of the old job
  bool weights_only = false;  // of a restart: at step 0; else it continues
};
// Without a name: the first of "name-2", "name-3", … that is free.
Result<int> job_clone(const Context& context, const AgainOptions& options);
// Continues a checkpoint, or begins with its weights, under the same name.
Result<int> job_restart(const Context& context, const AgainOptions& options);
Result<int> job_rm(const Context& context, const std::string& job);

Result<int> agent_ls(const Context& context, bool with_gone);
Result<int> agent_get(const Context& context, const std::string& agent);
// cordon, uncordon or drain. With wait: until it is drained.
Result<int> agent_command(const Context& context, const std::string& agent, const std::string& verb,
                          const WaitOptions& options);
Result<int> network(const Context& context);
// Says what cannot be reached, from where, and what to open. kExitFailure: something cannot.
Result<int> agent_doctor(const Context& context);
// Shows the version of this binary, and of the coordinator if it answers.
Result<int> version(const Context& context, const std::string& own);
Result<int> round_ls(const Context& context, const std::string& job);
// Without a number the newest one.
Result<int> round_get(const Context& context, const std::string& job, const std::string& round);

struct EventsOptions {
  bool follow = false;
  int last = 50;                  // this many of the newest, from 1
  std::string level, job, agent;  // empty: any
};
Result<int> events(const Context& context, const EventsOptions& options);

struct LogsOptions {
  std::string job, agent;  // one of them
  std::string level, replica, text;
  bool follow = false;
  int tail = 200;  // this many of the newest
};
Result<int> logs(const Context& context, const LogsOptions& options);

// checkpoint_care.cc. Of a job; empty: of all.
Result<int> checkpoint_ls(const Context& context, const std::string& job);
Result<int> checkpoint_pin(const Context& context, const std::string& checkpoint);
Result<int> checkpoint_unpin(const Context& context, const std::string& checkpoint);
// kExitFailure: a file is not what was recorded.
Result<int> checkpoint_verify(const Context& context, const std::string& checkpoint_or_job);
// `force`: even if it is needed.
Result<int> checkpoint_rm(const Context& context, const std::string& checkpoint, bool force);
// Into `folder`; files that are there with the right hash are kept, started ones are continued.
Result<int> checkpoint_download(const Context& context, const std::string& checkpoint_or_job,
                                const std::string& folder);
// The id as it is; of a job its newest stored checkpoint.
Result<std::string> find_checkpoint(const Api& api, const std::string& checkpoint_or_job);
Status download_checkpoint(const Api& api, const std::string& checkpoint,
                           const std::string& folder);

struct DatasetOptions {
  std::string name;
  std::vector<std::string> files;
  std::string tokens;       // bytes, uint16, uint32; empty: by the files' names
  std::string tokenizer;    // tokenizer.json of the tokens; empty: the prepared folder's, or none
  std::string credentials;  // file with the key of s3://…; empty: the environment
};
// Hashes the files, uploads what the coordinator lacks, and names the whole.
Result<int> dataset_add(const Context& context, const DatasetOptions& options);
Result<int> dataset_ls(const Context& context);
Result<int> dataset_get(const Context& context, const std::string& name);  // with its shards
// Lets the coordinator read each file again. kExitFailure: one is not what it was.
Result<int> dataset_verify(const Context& context, const std::string& name);
Result<int> dataset_rm(const Context& context, const std::string& name);

// Uploaded files: shards, manifests, code of jobs. `unused`: only files that nothing uses.
Result<int> file_ls(const Context& context, bool unused);

struct FileRemoval {
  std::vector<std::string> files;  // SHA-256, or the first digits of one
  bool unused = false;             // instead: all of one's own that nothing uses
};
Result<int> file_rm(const Context& context, const FileRemoval& removal);

struct GenerateOptions {
  std::string checkpoint;  // a folder; else what find_checkpoint() takes, which is downloaded first
  std::string prompt;
  int tokens = 200;
  double temperature = 0.8;
  int top_k = 0;  // 0: all
  long long seed = 1;
};
struct TokenOptions {
  bool join = false;        // for hosts; else for a person or a program
  long long uses = 1;       // of a join token
  std::string name, scope;  // of the other kind
  std::string ttl;          // base/span_text.h; empty: 1h to join, else 30d
};
Result<int> token_create(const Context& context, const TokenOptions& options);
Result<int> token_ls(const Context& context);
Result<int> token_rm(const Context& context, const std::string& token);

struct LoginOptions {
  std::string addr, name;  // empty: by its address
  Wanted wanted;           // flags of every command
};
// people.cc: logins and contexts, and the audit trail.
Result<int> login(const LoginOptions& options, bool json);
Result<int> link(const Context& context);  // that logs a browser in once
Result<int> audit(const Context& context, int last);
Result<int> context_ls(bool json);
Result<int> context_use(const std::string& name);
Result<int> context_rm(const std::string& name);

Result<int> ca_ls(const Context& context);
Result<int> ca_rotate(const Context& context);
Result<int> agent_rm(const Context& context, const std::string& agent);
Result<int> agent_revoke(const Context& context, const std::string& agent);

struct BackupOptions {
  std::string data_dir;  // empty: the coordinator's default
  std::string to;
};
// What takes the space of the coordinator.
Result<int> admin_space(const Context& context);
// Become `shoal-coordinator backup` and `shoal-coordinator restore-check`; return only when that
// fails.
Result<int> admin_backup(const BackupOptions& options, bool json);
Result<int> admin_restore_check(const std::string& folder, bool json);
// The command line of `shoal-trainer generate` for a folder with a checkpoint.
std::vector<std::string> generate_arguments(const std::string& binary, const std::string& folder,
                                            const GenerateOptions& options);
// Becomes it; returns only when that fails.
Result<int> generate(const Context& context, const GenerateOptions& options);

struct ExportOptions {
  std::string checkpoint;  // as of GenerateOptions
  std::string output, dtype = "bf16", shard_size = "5GB";
  std::string tokenizer;  // a folder; empty: none
};
// Becomes `shoal-trainer export`; returns only when that fails.
Result<int> checkpoint_export(const Context& context, const ExportOptions& options);

}  // namespace shoal::cli
