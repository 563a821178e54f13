// The command line of shoal-coordinator: every flag, its default and the rules between them, read
// once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/core/decisions/options.h"
#include "coordinator/core/records/event_record.h"
#include "coordinator/store/history_rules.h"
#include "data/data_roots.h"

namespace shoal::coordinator {

struct Config {
  std::string data_dir;  // default: $XDG_DATA_HOME/shoal/coordinator
  std::string http = "127.0.0.1:7070";
  std::string grpc = "127.0.0.1:7071";
  bool insecure_http = false;           // tokens may travel in clear between hosts
  std::string public_url;               // of a proxy in front of --http; empty: none
  data::DataRoots data_roots;           // what a dry run may look at on this host
  std::string ca;                       // file with a CA for a new cluster; empty: one is made
  std::vector<std::string> host_names;  // further ones of this host, for its certificate
  Duration certificate_life = seconds(86'400);  // of agents
  Bytes files_each_owner;                       // that one may have uploaded; 0: no limit
  std::string webhook;                          // URL that gets events; empty: none
  Severity webhook_level = Severity::kWarning;  // the least that it gets
  std::string outbound_proxy;                   // towards object stores and the webhook
  std::string checkpoint_store;                 // s3://…; empty: checkpoints lie in data_dir
  std::vector<std::string> data_stores;         // s3://…: where shards of datasets may lie
  std::string store_credentials;                // file with the key of all; empty: the environment
  std::string otlp;                             // URL of a collector; empty: none
  std::string address_file;                     // written once ready; empty: none
  std::string log_level = "info";               // debug, info, warning, error
  std::string log_format = "text";              // text, json
  bool check_only = false;                      // --check-config
  bool check_store = false;
  HistoryRules history = {.keep = seconds(365 * 86'400), .full = seconds(30 * 86'400)};
  Options core;

  std::string token_file() const { return data_dir + "/join_token"; }
  std::string admin_token_file() const { return data_dir + "/admin.token"; }
  std::string webhook_secret_file() const { return data_dir + "/webhook.secret"; }
  std::string webhook_position_file() const { return data_dir + "/webhook.position"; }
  std::string file_root() const { return data_dir + "/files"; }
  std::string checkpoint_root() const { return data_dir + "/checkpoints"; }
};

// What to do with a command line: run with a configuration, or print `text` and exit (help,
// version).
struct CommandLine {
  Config config;
  std::optional<std::string> text;
};

std::string default_data_dir();  // of this user; empty: there is no home folder

// kValidation: a flag is unknown or its value is refused; `field` names the flag.
Result<CommandLine> read_command_line(int argc, const char* const* argv);

// Whether only this host can reach an address ("127.0.0.1:7070", "[::1]:0", "localhost:7071").
bool is_loopback(const std::string& address);

}  // namespace shoal::coordinator
