// What an uploaded program may do on this host. It runs as the user of the agent, so file
// permissions do not confine it. The kernel does: Landlock lets it read and write named folders
// only, which the agent's key is not in; it looks into no other process; it has no privileges and
// can get none (no_new_privs, no capabilities); and it starts without core dumps and with a bound
// on its processes. From Linux 6.12 on it can also neither send signals to others nor reach the
// local sockets of trainers, which trust each process of their user; its own peers reach it, and it
// reaches them over TLS. The network stays open.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace shoal::agent {

struct Confinement {
  // Files and folders with what is beneath them. What is not there is left out.
  std::vector<std::string> readable;  // also: executable
  std::vector<std::string>
      writable;                  // also: readable. No links can be made there: the agent reads it
  std::vector<std::string> own;  // writable, links too
  // Not even where it lies beneath the readable. What is put beside it later cannot be read either,
  // and the folders that lead to it cannot be listed.
  std::vector<std::string> hidden;
  std::vector<std::string> exceptions;  // readable, although they lie in what is hidden
};

// What every program needs of a host: the system without its secrets, devices of GPUs, /dev/shm.
Confinement system_confinement();

// kIncompatible: this kernel cannot do it.
Status can_confine();

// The rules, prepared where memory may be allocated, for the child of a fork.
class ConfinementRules {
 public:
  static Result<ConfinementRules> make(const Confinement& confinement);
  ConfinementRules() = default;  // none: enter() does nothing
  ConfinementRules(ConfinementRules&& other) noexcept;
  ConfinementRules& operator=(ConfinementRules&& other) noexcept;
  ~ConfinementRules();

  // For this process and all that it will start, for good. Safe between fork and exec. An errno, or
  // 0.
  int enter() const;
  // The descriptor that must be open until then; -1: none.
  int descriptor() const { return ruleset_; }

 private:
  explicit ConfinementRules(int ruleset) : ruleset_(ruleset) {}
  int ruleset_ = -1;
};

}  // namespace shoal::agent
