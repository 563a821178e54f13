// What an uploaded program may do on this host. It runs as the user of the agent, so file
// permissions do not confine it. The kernel does: Landlock lets it read and write named folders
// only, which the agent's key is not in; it looks into no other process; it has no privileges and
// can get none (no_new_privs, no capabilities); and it starts without core dumps and with a bound
// on its processes. From Linux 6.12 on it can also neither send signals to others nor reach the
// local sockets of trainers, which trust each process of their user; its own peers reach it, and it
// reaches them over TLS. The network stays open.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace shoal::agent {

struct Confinement {
  // Files and folders with what is beneath them. What is not there is left out.
  std::vector<std::string> readable;  // also: executable
  // Also: readable. The agent reads what is there: programs make files and folders, and neither
  // links nor FIFOs, sockets or devices.
  std::vector<std::string> writable;
  std::vector<std::string> own;  // writable, with links, FIFOs and sockets: the agent reads nothing
  // Not even where it lies beneath the readable. What is put beside it later cannot be read either,
  // and the folders that lead to it cannot be listed.
  std::vector<std::string> hidden;
  std::vector<std::string> exceptions;  // readable, although they lie in what is hidden
  std::int64_t processes_max = 4096;    // of the user, threads included; root has no such bound
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
  ConfinementRules(int ruleset, std::int64_t processes_max)
      : ruleset_(ruleset), processes_max_(processes_max) {}
  int ruleset_ = -1;
  std::int64_t processes_max_ = 0;
};

}  // namespace shoal::agent
