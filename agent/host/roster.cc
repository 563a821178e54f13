#include "agent/host/roster.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <sstream>

#include "objects/location.h"
#include "threads/file_content.h"
#include "transfer/files.h"

namespace shoal::agent {
namespace {

constexpr std::string_view kHeadings[] = {"shoal-trainers 1", "shoal-trainers 2",
                                          "shoal-trainers 3"};  // by version
constexpr int kVersion = 3, kIdentitySince = 2, kGpusSince = 3;

Error damaged(const std::string& line) {
  return {Code::kDataLoss, "the list of trainers has the line \"" + line + "\"", "--data-dir",
          "its trainers are ended when they attach, or end by themselves after --orphan-limit-s"};
}

std::string rest_of(const std::string& line, std::string_view word) {
  const bool begins = line.starts_with(word) && line.size() > word.size() + 1;
  return begins && line[word.size()] == ' ' ? line.substr(word.size() + 1) : "";
}

std::string encoded(const std::string& text) { return "=" + objects::percent_encoded(text, false); }

bool decode(const std::string& field, std::string& text) {
  text.clear();
  if (!field.starts_with('=')) return false;
  for (std::size_t i = 1; i < field.size(); ++i) {
    if (field[i] != '%') {
      text += field[i];
      continue;
    }
    unsigned value = 0;
    const char* digits = field.data() + i + 1;
    if (i + 2 >= field.size() || std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) {
      return false;
    }
    text += static_cast<char>(value);
    i += 2;
  }
  return true;
}

std::string identity_text(const TrainerIdentity& identity) {
  std::ostringstream text;
  text << identity.replica.n << " " << identity.job.n << " " << identity.stage << " "
       << to_string(identity.runs.kind) << " " << encoded(identity.runs.code) << " "
       << encoded(identity.runs.entry);
  return text.str();
}

bool read_identity(std::istream& fields, TrainerIdentity& identity) {
  std::string kind, code, entry;
  fields >> identity.replica.n >> identity.job.n >> identity.stage >> kind >> code >> entry;
  const auto known = parse_enumerator<TrainerKind>(kind);
  if (fields.fail() || !known || identity.stage < 0) return false;
  identity.runs.kind = *known;
  return decode(code, identity.runs.code) && decode(entry, identity.runs.entry);
}

bool read_entry(const std::string& line, int version, RosterEntry& entry) {
  std::istringstream fields(line);
  std::string word, gpus, more;
  fields >> word >> entry.trainer.slot >> entry.trainer.generation >> entry.device >>
      entry.process.pid >> entry.process.started >> entry.port >> entry.nonce;
  if (version >= kIdentitySince && !read_identity(fields, entry.identity.emplace())) return false;
  if (version >= kGpusSince && !(fields >> gpus && decode(gpus, entry.gpus.emplace())))
    return false;
  const bool sound = !fields.fail() && !(fields >> more) && word == "trainer";
  return sound && entry.trainer.slot >= 0 && entry.process.pid > 0 && !entry.nonce.empty();
}

}  // namespace

std::string to_text(const Roster& roster) {
  std::ostringstream text;
  text << kHeadings[kVersion - 1] << "\nboot " << roster.boot << "\nsettings " << roster.settings
       << "\n";
  for (const RosterEntry& entry : roster.trainers) {
    text << "trainer " << entry.trainer.slot << " " << entry.trainer.generation << " "
         << entry.device << " " << entry.process.pid << " " << entry.process.started << " "
         << entry.port << " " << entry.nonce << " "
         << identity_text(entry.identity.value_or(TrainerIdentity())) << " "
         << encoded(entry.gpus.value_or("")) << "\n";
  }
  return text.str();
}

Result<Roster> parse_roster(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string line;
  std::getline(lines, line);
  const auto heading = std::ranges::find(kHeadings, line);
  if (heading == std::end(kHeadings)) return damaged(line);
  const int version = static_cast<int>(heading - std::begin(kHeadings)) + 1;
  Roster roster;
  const std::pair<const char*, std::string*> head[] = {{"boot", &roster.boot},
                                                       {"settings", &roster.settings}};
  for (const auto& [word, value] : head) {
    line.clear();
    std::getline(lines, line);
    *value = rest_of(line, word);
    if (value->empty()) return damaged(line);
  }
  while (std::getline(lines, line)) {
    RosterEntry entry;
    if (!read_entry(line, version, entry)) return damaged(line);
    roster.trainers.push_back(std::move(entry));
  }
  return roster;
}

Result<Roster> read_roster(const std::string& path) {
  const auto text = file_content(path);
  return text ? parse_roster(*text) : Roster{};
}

Status write_roster(const std::string& path, const Roster& roster) {
  return write_file_durably(path, to_text(roster));
}

std::string random_hex() {
  std::random_device device;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int i = 0; i < 4; ++i) {
    unsigned word = device();
    for (int j = 0; j < 8; ++j, word >>= 4) text += kDigits[word & 15];
  }
  return text;
}

}  // namespace shoal::agent
