// What a fuzzer does with its bytes, second part: everything that reads what a stranger, a peer, a
// user or a file says before anybody is believed. frame_fuzz.h has the frames and sessions of the
// outer step. The first byte chooses the parser; parser_fuzz.cc lists them.
//
// Breaks a SHOAL_CHECK, which ends the process, when a parser takes what it would not write, or
// gives something that its header rules out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shoal::fuzz {

enum class Parser : std::uint8_t {
  kStreamHeader,
  kStreamHello,
  kStreamReason,
  kJobToml,
  kJobJson,
  kKeptJob,
  kAgentMessage,
  kCoordinatorMessage,
  kTrainerMessage,
  kTrainerCommand,
  kCsr,
  kChain,
  kJoinToken,
  kApiToken,
  kTarget,
  kLinkOptions,
  kSafetensors,
  kEventStream,
  kTokenizer,
  kManifest,
  kBundle,
  kObjectStore,
  kLocation,
  kCredentials,
  kAskedRange,
  kContentRange,
  kRelayWord,
};
inline constexpr int kParsers = static_cast<int>(Parser::kRelayWord) + 1;

// True when it was taken.
bool try_parser(std::span<const std::byte> bytes);

}  // namespace shoal::fuzz
