// TOML is looked at as JSON here; what JSON cannot say (dates, nan) as text: the server refuses
// those with the field's name.
#include "cli/job_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <toml++/toml.h>

#include "cli/toml_edit.h"
#include "job/data_rules.h"
#include "threads/file_content.h"

namespace shoal::cli {
namespace {

namespace fs = std::filesystem;

using Places = std::map<std::string, std::string>;

Json to_json(const toml::node& node, const std::string& pointer, const std::string& file,
             Places& places) {
  if (!pointer.empty()) {
    places[pointer] = file + ":" + std::to_string(node.source().begin.line);
  }
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) {
      const std::string name(key.str());
      object[name] = to_json(value, pointer + "/" + name, file, places);
    }
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (std::size_t i = 0; i < array->size(); ++i) {
      list.push_back(to_json((*array)[i], pointer + "/" + std::to_string(i), file, places));
    }
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  if (const auto* real = node.as_floating_point(); real && std::isfinite(real->get())) {
    return real->get();
  }
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return text.str();
}

// For the two usual mistakes, the library's message names what it was doing, not what to write.
std::string plain_toml_problem(std::string_view description) {
  const auto says = [&](std::string_view part) {
    return description.find(part) != std::string_view::npos;
  };
  if (says("parsing string") && says("unescaped control characters")) {
    return "a text has no closing quote on its line";
  }
  if (says("cannot redefine existing")) {
    const auto quote = description.find('\'');
    const auto end = description.find('\'', quote + 1);
    if (end != std::string_view::npos) {
      return std::string(description.substr(quote, end + 1 - quote)) + " is there twice";
    }
  }
  return "not TOML: " + std::string(description);
}

Result<Json> read_toml(const std::string& text, const std::string& file, Places& places) {
  try {
    const toml::table table = toml::parse(text);
    return to_json(table, "", file, places);
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    return Error{Code::kValidation,
                 file + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " +
                     plain_toml_problem(error.description()),
                 "", "text needs quotes, tables look like [train]; see examples/kjv.toml"};
  }
}

Result<Json> read_json(const std::string& text, const std::string& file) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    // The library's text begins with its name of the mistake, in brackets.
    const std::string says = error.what();
    const auto bracket = says.find("] ");
    return Error{
        Code::kValidation,
        file + ": not JSON: " + says.substr(bracket == std::string::npos ? 0 : bracket + 2), "",
        "a file that does not end in .json is read as TOML"};
  }
}

// Nothing when it is not the value of one key.
std::optional<Json> toml_value(const std::string& text) {
  Places unused;
  const auto parsed = read_toml("v = " + text, "", unused);
  if (!parsed.ok() || parsed->size() != 1) return std::nullopt;
  return parsed->at("v");
}

std::string quoted(const std::string& text) { return Json(text).dump(); }  // TOML's escapes, too

// Keys of a table have no order.
bool says_the_same(const Json& one, const Json& other) {
  return nlohmann::json::parse(one.dump()) == nlohmann::json::parse(other.dump());
}

std::vector<std::string> split(const std::string& dotted) {
  std::vector<std::string> keys;
  std::istringstream parts(dotted);
  for (std::string part; std::getline(parts, part, '.');) keys.push_back(part);
  return keys;
}

}  // namespace

Result<JobFile> JobFile::load(const std::string& path, const JobFileChanges& changes) {
  if (path == "-") {
    std::ostringstream text;
    text << std::cin.rdbuf();
    return parse(text.str(), "stdin", fs::current_path().string(), changes);
  }
  const auto text = file_content(path);
  if (!text) {
    return Error{Code::kNotFound, "no such job file: " + path, "",
                 "give the path of a TOML file, for example examples/kjv.toml"};
  }
  return parse(*text, path, fs::absolute(path).parent_path().string(), changes);
}

Result<JobFile> JobFile::parse(const std::string& text, const std::string& shown_name,
                               const std::string& folder, const JobFileChanges& changes) {
  JobFile file;
  file.shown_name_ = shown_name;
  file.text_ = text;
  file.folder_ = folder;
  file.is_json_ = fs::path(shown_name).extension() == ".json";
  auto spec =
      file.is_json_ ? read_json(text, shown_name) : read_toml(text, shown_name, file.places_);
  if (!spec) return spec.error();
  if (!spec->is_object())
    return Error{Code::kValidation, shown_name + " contains no job", "",
                 "a job is one JSON object, with the tables of a TOML file as its fields"};
  file.spec_ = std::move(*spec);
  if (auto applied = file.apply(changes); !applied) return applied.error();
  return file;
}

Status JobFile::apply(const JobFileChanges& changes) {
  for (const std::string& assignment : changes.sets) {
    if (auto done = apply_set(assignment); !done) return done;
  }
  if (changes.name.empty()) return {};
  spec_["name"] = changes.name;
  places_["/name"] = "--name";
  return write_down("name", quoted(changes.name));
}

Status JobFile::apply_set(const std::string& assignment, const char* origin) {
  const auto equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Error{Code::kInvalidArgument, "not key=value: '" + assignment + "'", "--set",
                 "for example --set train.lr=0.0005"};
  }
  const std::string key = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  Json* node = &spec_;
  std::string pointer;
  for (const std::string& part : split(key)) {
    if (!node->is_object()) {
      return Error{Code::kInvalidArgument, "'" + key + "' goes through a value that is not a table",
                   "--set", "for example --set train.lr=0.0005"};
    }
    node = &(*node)[part];
    if (node->is_null()) *node = Json::object();
    pointer += "/" + part;
  }
  const auto value = toml_value(text);
  *node = value.value_or(Json(text));
  places_[pointer] = origin;
  return write_down(key, value ? text : quoted(text));
}

// The text then says what spec_ says.
Status JobFile::write_down(const std::string& dotted_key, const std::string& toml_value) {
  if (is_json_) return text_ = spec_.dump(2) + "\n", Status();
  Places unused;
  for (std::string& changed : with_field(text_, split(dotted_key), toml_value)) {
    const auto read = read_toml(changed, "", unused);
    if (!read.ok() || !says_the_same(*read, spec_)) continue;
    text_ = std::move(changed);
    return {};
  }
  return Error{Code::kInvalidArgument,
               "cannot change " + dotted_key + " in " + shown_name_ + " as it is written there",
               "--set", "write it as a line below a header like [train], or change it in the file"};
}

std::string JobFile::data_path() const {
  const Json* train = at_path(spec_, "data/train");
  if (!train || !train->is_string() || train->get<std::string>().empty()) return "";
  if (!parse_data_path(train->get<std::string>()).root.empty()) return "";  // of the agents
  const fs::path path = fs::path(folder_) / train->get<std::string>();      // keeps an absolute one
  return path.lexically_normal().string();
}

std::string JobFile::locate(const std::string& pointer) const {
  if (!pointer.starts_with('/') || pointer.starts_with("/query/")) return "";
  std::string at = pointer;
  while (!at.empty()) {
    const auto place = places_.find(at);
    if (place != places_.end()) return place->second + ": ";
    at.resize(at.rfind('/'));  // there is one: `at` begins with it
  }
  return shown_name_.empty() ? "" : shown_name_ + ": ";
}

Error JobFile::refused_data(const std::string& what, const std::string& remedy) const {
  return {Code::kValidation, locate("/data/train") + "data.train: " + what, "", remedy};
}

Status JobFile::check_data_is_here() const {
  const std::string path = data_path();
  if (path.empty()) return {};
  std::error_code failure;
  if (!fs::exists(path, failure)) {
    return refused_data("no such file: " + path,
                        "a relative path starts at the folder of the job file; the coordinator "
                        "runs on this host, so the file must be here");
  }
  if (fs::is_directory(path, failure)) {
    return refused_data("is a folder: " + path, "name one file");
  }
  if (!fs::is_regular_file(path, failure) || !std::ifstream(path)) {
    return refused_data("cannot be read: " + path, "name a file that you may read");
  }
  if (fs::file_size(path, failure) > 0) return {};
  return refused_data("the file is empty: " + path, "put text into it, or name another file");
}

Status JobFile::check_data(const Json& dry_run) const {
  const std::string problem = text_at(dry_run, "data/problem", "");
  if (problem.empty()) return {};
  return refused_data(problem, text_at(dry_run, "data/remedy", ""));
}

}  // namespace shoal::cli
