// Which coordinator the commands talk to, and with which token: flags, the environment, and the
// contexts that are kept in ~/.config/shoal/config.toml (mode 0600; one that others can read is
// refused). `shoal login` keeps a context, `shoal context` chooses among them, and `shoal up` keeps
// one for its cluster, which `shoal down` takes away.
//
//   current = "team"
//   [contexts.team]
//   addr = "https://shoal.example:7070"
//   ca = "/etc/shoal/roots.pem"       the CA of the coordinator's certificate
//   token = "shoalapi1.tok_3.…"        or token_file = "/path"
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/api.h"

namespace shoal::cli {

inline constexpr const char* kDefaultAddress = "http://127.0.0.1:7070";

struct SavedContext {
  std::string name;   // letters, digits, dots, hyphens and underscores
  std::string addr;   // Api::origin()
  std::string token;  // one of these two, or none
  std::string token_file;
  std::string ca;  // file; empty: the system's CAs
  bool operator==(const SavedContext&) const = default;
};

struct Contexts {
  std::string current;  // empty: none is chosen
  std::vector<SavedContext> all;

  const SavedContext* find(const std::string& name) const;
  const SavedContext* at(const std::string& origin) const;  // the chosen one first
  void put(SavedContext context);                           // replaces the one of its name
  bool remove(const std::string& name);                     // false: there is none
  // The same, where the cluster of `context` has taken over an address that others have, too: at()
  // finds this one. A chosen context of another address stays chosen.
  void put_first(const SavedContext& context);
};

std::string to_toml(const Contexts& contexts);
// `file` is for errors: data_loss, the line and what is wrong there.
Result<Contexts> parse_contexts(const std::string& text, const std::string& file);
// Code invalid_argument, field "--name".
Status check_context_name(const std::string& name);

// $XDG_CONFIG_HOME/shoal/config.toml or ~/.config/shoal/config.toml. kNotFound: no home folder.
Result<std::string> contexts_file();
// None at all where there is no file. permission_denied: others can read it.
Result<Contexts> load_contexts(const std::string& file);
// Reads, changes and writes the file, alone among processes; the folder is made.
Status change_contexts(const std::string& file, const std::function<void(Contexts&)>& change);

// What flags and the environment say; empty: nothing.
struct Wanted {
  std::string addr;            // --addr, SHOAL_ADDR
  std::string token;           // SHOAL_TOKEN
  std::string token_file;      // --token-file, SHOAL_TOKEN_FILE
  std::string ca;              // --ca, SHOAL_CA
  bool clear_allowed = false;  // --insecure-http
};
// The environment where no flag was given.
Wanted with_environment(Wanted flags);

struct Chosen {
  std::string addr;
  Credentials credentials;  // with a problem where they cannot be read
};
// An address takes the context of that address; without one it is the chosen context's, else the
// default. What is wanted goes before what the context has.
Chosen choose(const Contexts& contexts, const Wanted& wanted);
// The same over the user's file.
Chosen choose_coordinator(const Wanted& flags);

}  // namespace shoal::cli
