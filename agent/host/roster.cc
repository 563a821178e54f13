#include "agent/host/roster.h"

#include <fstream>
#include <random>
#include <sstream>

#include "transfer/files.h"

namespace shoal::agent {
namespace {

constexpr const char* kHeading = "shoal-trainers 1";

Error damaged(const std::string& line) {
  return {Code::kDataLoss, "the list of trainers has the line \"" + line + "\"", "--data-dir",
          "its trainers are ended when they attach, or end by themselves after --orphan-limit-s"};
}

std::string rest_of(const std::string& line, std::string_view word) {
  const bool begins = line.starts_with(word) && line.size() > word.size() + 1;
  return begins && line[word.size()] == ' ' ? line.substr(word.size() + 1) : "";
}

bool read_entry(const std::string& line, RosterEntry& entry) {
  std::istringstream fields(line);
  std::string word, more;
  fields >> word >> entry.trainer.slot >> entry.trainer.generation >> entry.device >>
      entry.process.pid >> entry.process.started >> entry.port >> entry.nonce;
  const bool sound = !fields.fail() && !(fields >> more) && word == "trainer";
  return sound && entry.trainer.slot >= 0 && entry.process.pid > 0 && !entry.nonce.empty();
}

}  // namespace

std::string to_text(const Roster& roster) {
  std::ostringstream text;
  text << kHeading << "\nboot " << roster.boot << "\nsettings " << roster.settings << "\n";
  for (const RosterEntry& entry : roster.trainers) {
    text << "trainer " << entry.trainer.slot << " " << entry.trainer.generation << " "
         << entry.device << " " << entry.process.pid << " " << entry.process.started << " "
         << entry.port << " " << entry.nonce << "\n";
  }
  return text.str();
}

Result<Roster> parse_roster(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string line;
  if (!std::getline(lines, line) || line != kHeading) return damaged(line);
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
    if (!read_entry(line, entry)) return damaged(line);
    roster.trainers.push_back(std::move(entry));
  }
  return roster;
}

Result<Roster> read_roster(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Roster{};
  std::ostringstream text;
  text << file.rdbuf();
  return parse_roster(text.str());
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
