// One table of fields reads and writes both text forms: a TOML file first becomes a JSON tree
// (toml_tree.h), then the same reader looks up every key. What a key means for the job is
// validate()'s business; this file knows names, types and what people probably meant.
#include "proto/job_spec_text.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <span>

#include "base/field_checker.h"
#include "base/idle_fields.h"
#include "proto/near_word.h"
#include "proto/toml_tree.h"

namespace shoal::proto {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxTextBytes = 1 << 20;

// ---- values
// -------------------------------------------------------------------------------------- Each
// read_value() returns an empty string, or what was given and what is accepted.

std::string given(const Json& value) {
  if (value.is_string()) return shoal::quoted(value.get<std::string>());
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (value.is_object()) return "a table";
  if (value.is_array()) return "an array";
  return value.is_null() ? "null" : "a date or time";
}

// For who wrote a number as text.
std::string given_number(const Json& value) {
  if (!value.is_string()) return given(value);
  const Json inside = Json::parse(value.get<std::string>(), nullptr, false);
  return given(value) + (inside.is_number() ? "; write it without the quotes" : "");
}

std::string read_value(const Json& from, std::int64_t& to) {
  const bool fits =
      from.is_number_integer() &&
      !(from.is_number_unsigned() && from.get<std::uint64_t>() > std::uint64_t{INT64_MAX});
  if (!fits) return "must be an integer of at most 64 bits, got " + given_number(from);
  to = from.get<std::int64_t>();
  return {};
}

std::string read_value(const Json& from, std::uint64_t& to) {
  std::int64_t value = 0;
  if (auto problem = read_value(from, value); !problem.empty()) return problem;
  if (value < 0) return "must be 0 or more, got " + given(from);
  to = static_cast<std::uint64_t>(value);
  return {};
}

std::string read_value(const Json& from, double& to) {
  if (!from.is_number()) return "must be a number, got " + given_number(from);
  to = from.get<double>();
  return {};
}

std::string read_value(const Json& from, std::string& to) {
  if (!from.is_string()) return "must be a string, got " + given(from);
  to = from.get<std::string>();
  return {};
}

std::string read_value(const Json& from, bool& to) {
  if (!from.is_boolean()) return "must be true or false, got " + given(from);
  to = from.get<bool>();
  return {};
}

std::string read_value(const Json& from, std::optional<bool>& to) {
  if (from.is_null()) return to.reset(), "";
  if (!from.is_boolean()) return "must be true or false, got " + given(from);
  to = from.get<bool>();
  return {};
}

std::string read_value(const Json& from, Steps& to) {
  std::int64_t count = 0;
  auto problem = read_value(from, count);
  if (problem.empty()) to = Steps(count);
  return problem;
}

template <typename E>
requires std::is_enum_v<E> std::string read_value(const Json& from, E& to) {
  std::string accepted, nearest;
  for (const auto& [word, text] : kWords<E>) {
    if (from.is_string() && from.get<std::string>() == text) return to = word, std::string();
    accepted += (accepted.empty() ? "" : " or ") + shoal::quoted(text);
    if (from.is_string() && is_near(from.get<std::string>(), text)) nearest = text;
  }
  return "must be " + accepted + ", got " + given(from) +
         (nearest.empty() ? "" : "; did you mean " + shoal::quoted(nearest) + "?");
}

template <typename T>
Json write_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return to_string(value);
  } else if constexpr (std::is_same_v<T, Steps>) {
    return value.count();
  } else if constexpr (std::is_same_v<T, std::optional<bool>>) {
    return value ? Json(*value) : Json();
  } else {
    return value;
  }
}

// ---- the fields

struct Field {
  std::string_view table;  // "train"; "" for the top level
  std::string_view key;
  std::string (*read)(const Json& from, JobSpec& to);
  Json (*write)(const JobSpec& from);
};

template <auto kMember>
constexpr Field field(std::string_view table, std::string_view key) {
  return {table, key, [](const Json& from, JobSpec& to) { return read_value(from, kMember(to)); },
          [](const JobSpec& from) { return write_value(kMember(from)); }};
}

std::string read_betas(const Json& from, JobSpec& to) {
  const bool two =
      from.is_array() && from.size() == 2 && from[0].is_number() && from[1].is_number();
  if (!two) return "must be an array of two numbers, e.g. [0.9, 0.99], got " + given(from);
  to.train.beta1 = from[0].get<double>();
  to.train.beta2 = from[1].get<double>();
  return {};
}
Json write_betas(const JobSpec& from) { return Json::array({from.train.beta1, from.train.beta2}); }

constexpr std::string_view kAuto = "auto";
std::string read_stages(const Json& from, JobSpec& to) {
  if (from.is_string() && from.get<std::string>() == kAuto) return to.swarm.stages = 0, "";
  if (!from.is_number_integer() || from.get<std::int64_t>() < 1) {
    return "must be 'auto' or a whole number from 1, got " + given(from);
  }
  return read_value(from, to.swarm.stages);
}
Json write_stages(const JobSpec& from) {
  return from.swarm.stages == 0 ? Json(kAuto) : Json(from.swarm.stages);
}

struct TimeUnit {
  char letter;
  std::int64_t seconds;
};
constexpr TimeUnit kTimeUnits[] = {{'h', 3600}, {'m', 60}, {'s', 1}};  // the largest first

// "10m" -> 600; 0: not such a time.
std::int64_t seconds_of(const std::string& text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop + 1 != end || number < 1 || number > 1'000'000) return 0;
  for (const TimeUnit& unit : kTimeUnits) {
    if (*stop == unit.letter) return number * unit.seconds;
  }
  return 0;
}

std::string read_every(const Json& from, JobSpec& to) {
  if (!from.is_string()) {
    to.sync.every_s = 0;
    const std::string problem = read_value(from, to.sync.every);
    return problem.empty() ? "" : "must be inner steps, or a time like '10m', got " + given(from);
  }
  to.sync.every_s = seconds_of(from.get<std::string>());
  if (to.sync.every_s > 0) return {};
  return "must be inner steps, or a time in whole seconds, minutes or hours ('30s', '10m', '2h'), "
         "got " +
         given(from);
}
Json write_every(const JobSpec& from) {
  if (from.sync.every_s == 0) return from.sync.every.count();
  for (const TimeUnit& unit : kTimeUnits) {
    if (from.sync.every_s % unit.seconds != 0) continue;
    return std::to_string(from.sync.every_s / unit.seconds) + unit.letter;
  }
  return from.sync.every_s;  // unreachable: every time is in seconds
}

#define SHOAL_FIELD(table, key, member)                   \
  field < [](auto& spec) -> auto& { return spec.member; } \
  > (table, key)
constexpr Field kFields[] = {
    SHOAL_FIELD("", "name", name),
    SHOAL_FIELD("model", "family", model.family),
    SHOAL_FIELD("model", "layers", model.layers),
    SHOAL_FIELD("model", "hidden", model.hidden),
    SHOAL_FIELD("model", "heads", model.heads),
    SHOAL_FIELD("model", "kv_heads", model.kv_heads),
    SHOAL_FIELD("model", "ffn", model.ffn),
    SHOAL_FIELD("model", "context", model.context),
    SHOAL_FIELD("model", "vocab", model.vocab),
    SHOAL_FIELD("model", "tie_embeddings", model.tie_embeddings),
    SHOAL_FIELD("data", "train", data.train),
    SHOAL_FIELD("data", "tokenizer", data.tokenizer),
    SHOAL_FIELD("data", "val_fraction", data.val_fraction),
    SHOAL_FIELD("train", "steps", train.steps),
    SHOAL_FIELD("train", "batch", train.batch),
    SHOAL_FIELD("train", "microbatch", train.microbatch),
    SHOAL_FIELD("train", "optimizer", train.optimizer),
    SHOAL_FIELD("train", "lr", train.lr),
    SHOAL_FIELD("train", "min_lr", train.min_lr),
    SHOAL_FIELD("train", "warmup", train.warmup),
    SHOAL_FIELD("train", "schedule", train.schedule),
    SHOAL_FIELD("train", "weight_decay", train.weight_decay),
    Field{"train", "betas", read_betas, write_betas},
    SHOAL_FIELD("train", "clip", train.clip),
    SHOAL_FIELD("train", "precision", train.precision),
    SHOAL_FIELD("train", "seed", train.seed),
    SHOAL_FIELD("sync", "algorithm", sync.algorithm),
    Field{"sync", "every", read_every, write_every},
    SHOAL_FIELD("sync", "balance", sync.balance),
    SHOAL_FIELD("sync", "topology", sync.topology),
    SHOAL_FIELD("sync", "codec", sync.codec),
    SHOAL_FIELD("sync", "feedback", sync.feedback),
    SHOAL_FIELD("sync", "aggregator", sync.aggregator),
    SHOAL_FIELD("sync", "clip", sync.clip),
    SHOAL_FIELD("sync", "fragments", sync.fragments),
    SHOAL_FIELD("sync", "overlap_steps", sync.overlap_steps),
    SHOAL_FIELD("sync", "blend", sync.blend),
    SHOAL_FIELD("sync", "eager", sync.eager),
    SHOAL_FIELD("sync", "quorum", sync.quorum),
    SHOAL_FIELD("sync", "outer_state", sync.outer_state),
    SHOAL_FIELD("sync/outer", "lr", sync.outer.lr),
    SHOAL_FIELD("sync/outer", "momentum", sync.outer.momentum),
    Field{"swarm", "stages", read_stages, write_stages},
    SHOAL_FIELD("swarm", "min_replicas", swarm.min_replicas),
    SHOAL_FIELD("swarm", "max_replicas", swarm.max_replicas),
    SHOAL_FIELD("swarm", "activations", swarm.activations),
    SHOAL_FIELD("swarm", "recompute", swarm.recompute),
    SHOAL_FIELD("swarm", "schedule", swarm.schedule),
    SHOAL_FIELD("swarm", "wiring", swarm.wiring),
    SHOAL_FIELD("checkpoint", "every_rounds", checkpoint.every_rounds),
    SHOAL_FIELD("checkpoint", "keep", checkpoint.keep),
    SHOAL_FIELD("eval", "every_rounds", eval.every_rounds),
    SHOAL_FIELD("eval", "batches", eval.batches),
};
#undef SHOAL_FIELD

// Tables inside a table, so that a reader of "" knows "model" and a reader of "sync" knows "outer".
struct Table {
  std::string_view parent, key, path;
};
constexpr Table kTables[] = {
    {"", "model", "model"}, {"", "data", "data"},
    {"", "train", "train"}, {"", "sync", "sync"},
    {"", "swarm", "swarm"}, {"", "checkpoint", "checkpoint"},
    {"", "eval", "eval"},   {"sync", "outer", "sync/outer"},
};

// What other programs call these fields.
struct Synonym {
  std::string_view table, word, key;
};
constexpr Synonym kSynonyms[] = {
    {"model", "type", "family"},
    {"model", "arch", "family"},
    {"model", "n_layer", "layers"},
    {"model", "num_layers", "layers"},
    {"model", "num_hidden_layers", "layers"},
    {"model", "hidden_size", "hidden"},
    {"model", "d_model", "hidden"},
    {"model", "n_embd", "hidden"},
    {"model", "dim", "hidden"},
    {"model", "n_head", "heads"},
    {"model", "num_attention_heads", "heads"},
    {"model", "num_key_value_heads", "kv_heads"},
    {"model", "n_kv_heads", "kv_heads"},
    {"model", "intermediate_size", "ffn"},
    {"model", "d_ff", "ffn"},
    {"model", "block_size", "context"},
    {"model", "seq_len", "context"},
    {"model", "sequence_length", "context"},
    {"model", "context_length", "context"},
    {"model", "vocab_size", "vocab"},
    {"data", "path", "train"},
    {"data", "file", "train"},
    {"data", "validation_fraction", "val_fraction"},
    {"train", "learning_rate", "lr"},
    {"train", "min_learning_rate", "min_lr"},
    {"train", "max_steps", "steps"},
    {"train", "iterations", "steps"},
    {"train", "batch_size", "batch"},
    {"train", "micro_batch_size", "microbatch"},
    {"train", "warmup_steps", "warmup"},
    {"train", "lr_schedule", "schedule"},
    {"train", "wd", "weight_decay"},
    {"train", "grad_clip", "clip"},
    {"train", "max_grad_norm", "clip"},
    {"train", "dtype", "precision"},
    {"sync", "h", "every"},
    {"sync", "inner_steps", "every"},
    {"sync", "interval", "every"},
    {"sync", "compression", "codec"},
    {"sync/outer", "learning_rate", "lr"},
    {"sync/outer", "beta", "momentum"},
    {"swarm", "replicas", "min_replicas"},
    {"model", "tie_word_embeddings", "tie_embeddings"},
    {"swarm", "pipeline_stages", "stages"},
    {"swarm", "activation_checkpointing", "recompute"},
};

// ---- unknown keys

std::vector<std::string_view> keys_of(std::string_view table) {
  std::vector<std::string_view> keys;
  for (const Field& f : kFields) {
    if (f.table == table) keys.push_back(f.key);
  }
  for (const Table& t : kTables) {
    if (t.parent == table) keys.push_back(t.key);
  }
  return keys;
}

// The key of this table that the word most resembles, by its own name or by a synonym; empty: none.
std::string_view nearest_key(std::string_view table, std::string_view word) {
  std::string_view best;
  std::size_t best_distance = SIZE_MAX;
  const auto consider = [&](std::string_view candidate, std::string_view key) {
    const std::size_t distance = edit_distance(word, candidate);
    if (is_near(word, candidate) && distance < best_distance) best = key, best_distance = distance;
  };
  for (const std::string_view key : keys_of(table)) consider(key, key);
  for (const Synonym& s : kSynonyms) {
    if (s.table == table) consider(s.word, s.key);
  }
  return best;
}

std::string table_name(std::string_view path) {
  std::string name(path);
  std::replace(name.begin(), name.end(), '/', '.');
  return name.empty() ? "at the top level" : "in [" + name + "]";
}

// Where a right name in the wrong table belongs: "in [train] or in [sync.outer]"; empty: nowhere.
std::string tables_with(std::string_view key) {
  std::string found;
  const auto add = [&](std::string_view table) {
    found += (found.empty() ? "" : " or ") + table_name(table);
  };
  for (const Field& f : kFields) {
    if (f.key == key) add(f.table);
  }
  for (const Table& t : kTables) {
    if (t.key == key) add(t.parent);
  }
  return found;
}

std::string unknown_key(std::string_view table, std::string_view key) {
  std::string text = "unknown field " + shoal::quoted(key);
  if (const auto nearest = nearest_key(table, key); !nearest.empty()) {
    text += "; did you mean " + shoal::quoted(nearest) + "?";
  } else if (const auto others = tables_with(key); !others.empty()) {
    text += "; it belongs " + others;
  }
  text += " (accepted " + table_name(table) + ": ";
  bool first = true;
  for (const std::string_view accepted : keys_of(table)) {
    text += (first ? "" : ", ") + std::string(accepted);
    first = false;
  }
  return text + ")";
}

// ---- reading

std::string join(std::string_view path, std::string_view key) {
  return path.empty() ? "/" + std::string(key) : "/" + std::string(path) + "/" + std::string(key);
}

struct Reading {
  JobSpec spec;
  std::vector<FieldError> errors;
  std::vector<const Field*> written;  // what the text says; the other fields have their defaults
};

void read_table(const Json& tree, std::string_view path, Reading& reading);

void read_entry(std::string_view path, const std::string& key, const Json& value,
                Reading& reading) {
  const auto* f = std::find_if(std::begin(kFields), std::end(kFields), [&](const Field& each) {
    return each.table == path && each.key == key;
  });
  auto& errors = reading.errors;
  if (f != std::end(kFields)) {
    reading.written.push_back(f);
    if (auto problem = f->read(value, reading.spec); !problem.empty())
      errors.push_back({join(path, key), problem});
    return;
  }
  const auto* t = std::find_if(std::begin(kTables), std::end(kTables), [&](const Table& each) {
    return each.parent == path && each.key == key;
  });
  if (t == std::end(kTables)) return errors.push_back({join(path, key), unknown_key(path, key)});
  if (!value.is_object()) {
    return errors.push_back({join(path, key), "must be a table of fields, got " + given(value)});
  }
  read_table(value, t->path, reading);
}

void read_table(const Json& tree, std::string_view path, Reading& reading) {
  for (const auto& [key, value] : tree.items()) read_entry(path, key, value, reading);
}

std::string summary_of(const std::vector<FieldError>& errors) {
  if (errors.size() == 1)
    return "1 field is not accepted: " + errors[0].pointer + " " + errors[0].detail;
  return std::to_string(errors.size()) + " fields are not accepted";
}

// A field that could not be read keeps its default, so what validate() says of it is noise.
void add_broken_rules(const JobSpec& spec, std::vector<FieldError>& errors) {
  const std::size_t unread = errors.size();
  for (FieldError& broken : validate(spec)) {
    const bool known =
        std::any_of(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(unread),
                    [&](const FieldError& e) { return broken.pointer.starts_with(e.pointer); });
    if (!known) errors.push_back(std::move(broken));
  }
}

// What was written and has no effect. A text that has every field was made by spec_to_json(): there
// an idle field may say its default, so that a spec of the API can be submitted again.
void add_idle_fields(Reading& reading) {
  const JobSpec usual = default_spec(reading.spec.sync.algorithm);
  const bool whole = reading.written.size() == std::size(kFields);
  for (FieldError& idle : idle_fields(reading.spec)) {
    const auto written = std::find_if(
        reading.written.begin(), reading.written.end(),
        [&](const Field* each) { return join(each->table, each->key) == idle.pointer; });
    if (written == reading.written.end()) continue;
    if (whole && (*written)->write(reading.spec) == (*written)->write(usual)) continue;
    reading.errors.push_back(std::move(idle));
  }
}

// The algorithm is looked at before all other fields: the defaults of the others follow from it.
JobSpec defaults_for(const Json& root) {
  SyncAlgorithm algorithm = SyncAlgorithm::kDiloco;
  const auto sync = root.find("sync");
  if (sync == root.end() || !sync->is_object()) return default_spec(algorithm);
  const auto word = sync->find("algorithm");
  // What cannot be read is refused when its turn comes.
  if (word != sync->end() && !read_value(*word, algorithm).empty()) return {};
  return default_spec(algorithm);
}

enum class Author { kPerson, kProgram };

SpecOrProblems read_tree(const Json& root, const std::map<std::string, TextPosition>& positions,
                         Author author) {
  Reading reading{defaults_for(root), {}, {}};
  read_table(root, "", reading);
  auto& errors = reading.errors;
  const bool all_read = errors.empty();
  add_broken_rules(reading.spec, errors);
  if (author == Author::kPerson && all_read) add_idle_fields(reading);
  for (FieldError& error : errors) {
    const auto at = positions.find(error.pointer);
    if (at == positions.end()) continue;
    error.detail += " (line " + std::to_string(at->second.line) + ", column " +
                    std::to_string(at->second.column) + ")";
  }
  SpecOrProblems result{std::move(reading.spec), {}};
  if (!errors.empty()) result.problems = SpecProblems{summary_of(errors), std::move(errors), false};
  return result;
}

SpecOrProblems syntax_error(std::string sentence) {
  return {{}, SpecProblems{std::move(sentence), {}, true}};
}

SpecOrProblems too_large(std::string_view text) {
  return syntax_error("a job specification may have at most 1 MiB of text, got " +
                      std::to_string(text.size()) + " bytes");
}

// "[json.exception.parse_error.101] parse error at line 1, column 5: …" without its tag.
std::string json_error_text(const std::exception& error) {
  std::string text = error.what();
  if (const auto at = text.find("line "); at != std::string::npos)
    return "not valid JSON at " + text.substr(at);
  if (const auto end = text.find("] "); end != std::string::npos) text = text.substr(end + 2);
  return "not valid JSON: " + text;
}

SpecOrProblems read_json(std::string_view text, Author author) {
  if (text.size() > kMaxTextBytes) return too_large(text);
  try {
    const Json root = Json::parse(text);
    if (!root.is_object())
      return syntax_error("a job specification must be a JSON object, got " + given(root));
    return read_tree(root, {}, author);
  } catch (const nlohmann::json::exception& error) {
    return syntax_error(json_error_text(error));
  }
}

}  // namespace

SpecOrProblems read_spec_toml(std::string_view text) {
  if (text.size() > kMaxTextBytes) return too_large(text);
  auto tree = read_toml(text);
  if (auto* sentence = std::get_if<std::string>(&tree)) return syntax_error(std::move(*sentence));
  const auto& read = std::get<TomlTree>(tree);
  return read_tree(read.root, read.positions, Author::kPerson);
}

SpecOrProblems read_spec_json(std::string_view text) { return read_json(text, Author::kPerson); }

SpecOrProblems read_kept_spec(std::string_view json) { return read_json(json, Author::kProgram); }

nlohmann::ordered_json spec_to_json(const JobSpec& spec) {
  Json root = Json::object();
  for (const Field& f : kFields) {
    const std::string pointer = join(f.table, f.key);
    root[Json::json_pointer(pointer)] = f.write(spec);
  }
  return root;
}

}  // namespace shoal::proto
