#include "cli/contexts.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <toml++/toml.h>

#include "cli/terminal.h"
#include "cli/user_folder.h"
#include "identity/private_file.h"
#include "threads/file_lock.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kLockLimitS = 5;

// TOML's basic strings take the escapes of JSON.
std::string quoted(const std::string& text) { return Json(text).dump(); }

std::string text_in(const toml::table& table, const char* key) {
  return table[key].value_or(std::string());
}

std::string from_environment(const char* name, const std::string& flag) {
  if (!flag.empty()) return flag;
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// The token itself before a file; wanted before kept.
Result<std::string> token_of(const Wanted& wanted, const SavedContext& context) {
  if (!wanted.token.empty()) return wanted.token;
  if (!wanted.token_file.empty()) return identity::read_token_file(wanted.token_file);
  if (!context.token.empty()) return context.token;
  if (context.token_file.empty()) return std::string();
  return identity::read_token_file(context.token_file);
}

}  // namespace

const SavedContext* Contexts::find(const std::string& name) const {
  const auto found = std::ranges::find(all, name, &SavedContext::name);
  return found == all.end() ? nullptr : &*found;
}

const SavedContext* Contexts::at(const std::string& origin) const {
  const SavedContext* chosen = find(current);
  if (chosen != nullptr && chosen->addr == origin) return chosen;
  const auto found = std::ranges::find(all, origin, &SavedContext::addr);
  return found == all.end() ? nullptr : &*found;
}

void Contexts::put(SavedContext context) {
  const auto found = std::ranges::find(all, context.name, &SavedContext::name);
  if (found == all.end()) {
    all.push_back(std::move(context));
  } else {
    *found = std::move(context);
  }
}

void Contexts::put_first(const SavedContext& context) {
  put(context);
  const bool others = std::ranges::any_of(all, [&](const SavedContext& one) {
    return one.addr == context.addr && one.name != context.name;
  });
  const SavedContext* chosen = find(current);
  if (others && (chosen == nullptr || chosen->addr == context.addr)) current = context.name;
}

bool Contexts::remove(const std::string& name) {
  if (current == name) current.clear();
  return std::erase_if(all, [&](const SavedContext& one) { return one.name == name; }) > 0;
}

std::string to_toml(const Contexts& contexts) {
  std::string text = "# Written by shoal login and shoal context. It holds secrets: mode 0600.\n";
  if (!contexts.current.empty()) text += "current = " + quoted(contexts.current) + "\n";
  for (const SavedContext& one : contexts.all) {
    text += "\n[contexts." + quoted(one.name) + "]\n";
    for (const auto& [key, value] : {std::pair("addr", one.addr),
                                     {"token", one.token},
                                     {"token_file", one.token_file},
                                     {"ca", one.ca}}) {
      if (!value.empty()) text += std::string(key) + " = " + quoted(value) + "\n";
    }
  }
  return text;
}

Result<Contexts> parse_contexts(const std::string& text, const std::string& file) {
  Contexts contexts;
  try {
    const toml::table read = toml::parse(text);
    contexts.current = text_in(read, "current");
    const toml::table* all = read["contexts"].as_table();
    if (all == nullptr) return contexts;
    for (const auto& [name, value] : *all) {
      const toml::table* one = value.as_table();
      if (one == nullptr) continue;
      contexts.all.push_back({std::string(name.str()), text_in(*one, "addr"),
                              text_in(*one, "token"), text_in(*one, "token_file"),
                              text_in(*one, "ca")});
    }
    return contexts;
  } catch (const toml::parse_error& problem) {
    return Error{Code::kDataLoss,
                 "line " + std::to_string(problem.source().begin.line) + ": " +
                     std::string(problem.description()),
                 file, "fix the line, or delete the file and log in again: shoal login"};
  }
}

Status check_context_name(const std::string& name) {
  const bool plain = std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
  if (plain && !name.empty() && name.size() <= 64) return {};
  return Error{Code::kInvalidArgument, "'" + name + "' is not a valid name for a context", "--name",
               "give 1 to 64 letters, digits, dots, hyphens and underscores"};
}

Result<std::string> contexts_file() {
  const auto folder = user_folder("XDG_CONFIG_HOME", ".config", "");
  return folder.ok() ? Result<std::string>(*folder + "/config.toml") : folder;
}

Result<Contexts> load_contexts(const std::string& file) {
  const auto text = identity::read_private_file(file);
  if (!text.ok() && text.error().code == Code::kNotFound) return Contexts{};
  if (!text.ok()) return text.error();
  return parse_contexts(*text, file);
}

Status change_contexts(const std::string& file, const std::function<void(Contexts&)>& change) {
  std::error_code failure;
  const std::string folder = fs::path(file).parent_path();
  fs::create_directories(folder, failure);
  if (failure) {
    return Error{Code::kPermissionDenied, "cannot be made: " + failure.message(), folder,
                 "let XDG_CONFIG_HOME name a folder that you may write to"};
  }
  const double end = now_s() + kLockLimitS;
  for (;;) {
    const FileLock lock(folder + "/config.lock", O_RDWR | O_CREAT);
    if (lock.held()) {
      auto contexts = load_contexts(file);
      if (!contexts) return contexts.error();
      change(*contexts);
      return identity::write_private_file(file, to_toml(*contexts));
    }
    if (now_s() > end || !pause_for(0.05)) {
      return Error{Code::kConflict, "another command is changing it", file, "try again"};
    }
  }
}

Wanted with_environment(Wanted flags) {
  // A file that a flag names goes before a token of the environment.
  if (flags.token_file.empty()) flags.token = from_environment("SHOAL_TOKEN", flags.token);
  flags.addr = from_environment("SHOAL_ADDR", flags.addr);
  flags.token_file = from_environment("SHOAL_TOKEN_FILE", flags.token_file);
  flags.ca = from_environment("SHOAL_CA", flags.ca);
  return flags;
}

Chosen choose(const Contexts& contexts, const Wanted& wanted) {
  const SavedContext* current = contexts.find(contexts.current);
  Chosen chosen;
  chosen.addr = !wanted.addr.empty() ? wanted.addr
                : current != nullptr ? current->addr
                                     : kDefaultAddress;
  const SavedContext* found = contexts.at(Api(chosen.addr).origin());
  const SavedContext context = found == nullptr ? SavedContext{} : *found;
  chosen.credentials.ca = wanted.ca.empty() ? context.ca : wanted.ca;
  chosen.credentials.clear_allowed = wanted.clear_allowed;
  if (!contexts.current.empty() && current == nullptr && wanted.addr.empty()) {
    chosen.credentials.problem =
        Error{Code::kNotFound, "there is no context '" + contexts.current + "'", "",
              "`shoal context ls` lists them; choose one with `shoal context use`"};
    return chosen;
  }
  auto token = token_of(wanted, context);
  if (token.ok()) {
    chosen.credentials.token = std::move(token).value();
  } else {
    chosen.credentials.problem = token.error();
  }
  return chosen;
}

Chosen choose_coordinator(const Wanted& flags) {
  const Wanted wanted = with_environment(flags);
  const auto file = contexts_file();
  const auto contexts = file.ok() ? load_contexts(*file) : Result<Contexts>(Contexts{});
  if (contexts.ok()) return choose(*contexts, wanted);
  Chosen chosen = choose({}, wanted);
  chosen.credentials.problem = contexts.error();
  return chosen;
}

}  // namespace shoal::cli
