// One table of fields (job_spec_fields.h) reads and writes both text forms: a
// TOML file first becomes a JSON tree (toml_tree.h), then the same reader looks
// up every key. What a key means for the job is validate()'s business; this
// file knows names, types and what people probably meant.
#include "proto/job_spec_text.h"

#include <algorithm>
#include <map>
#include <span>

#include "job/field_checker.h"
#include "job/ineffective_options.h"
#include "job/job_rules.h"
#include "proto/job_spec_fields.h"
#include "proto/near_word.h"
#include "proto/toml_tree.h"

namespace shoal::proto {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxTextBytes = 1 << 20;

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
    {"model", "head_size", "head_dim"},
    {"model", "attention_bias", "qkv_bias"},
    {"model", "rms_norm_eps", "norm_eps"},
    {"model", "layer_norm_epsilon", "norm_eps"},
    {"model", "rope_theta", "rope"},
    {"model", "rope_scaling", "rope"},
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
    {"model/rope", "rope_theta", "theta"},
    {"model/rope", "base", "theta"},
    {"model/rope", "type", "scaling"},
    {"model/rope", "rope_type", "scaling"},
    {"model/rope", "original_max_position_embeddings", "original_context"},
    {"sync/outer", "learning_rate", "lr"},
    {"sync/outer", "beta", "momentum"},
    {"swarm", "replicas", "min_replicas"},
    {"model", "tie_word_embeddings", "tie_embeddings"},
    {"swarm", "pipeline_stages", "stages"},
    {"swarm", "activation_checkpointing", "recompute"},
};

// Keys of former versions. Stored specs may still have them, and their value is passed over; in a
// new spec they are refused with what replaces them.
struct RetiredKey {
  std::string_view table, key, instead;
};
constexpr RetiredKey kRetiredKeys[] = {
    {"swarm", "wiring",
     "was removed in 0.2.0: each replica of the next stage gets microbatches in proportion to its "
     "measured speed; leave it out"},
};

const RetiredKey* retired_key(std::string_view table, std::string_view key) {
  const auto retired = std::ranges::find_if(
      kRetiredKeys, [&](const RetiredKey& each) { return each.table == table && each.key == key; });
  return retired == std::end(kRetiredKeys) ? nullptr : retired;
}

// ---- unknown keys

std::vector<std::string_view> keys_of(std::string_view table) {
  std::vector<std::string_view> keys;
  for (const SpecField& f : spec_fields()) {
    if (f.table == table) keys.push_back(f.key);
  }
  for (const SpecTable& t : spec_tables()) {
    if (t.parent == table) keys.push_back(t.key);
  }
  return keys;
}

// The key of this table that the word most resembles, by its own name or by a
// synonym; empty: none.
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

// Where a right name in the wrong table belongs: "in [train] or in
// [sync.outer]"; empty: nowhere.
std::string tables_with(std::string_view key) {
  std::string found;
  const auto add = [&](std::string_view table) {
    found += (found.empty() ? "" : " or ") + table_name(table);
  };
  for (const SpecField& f : spec_fields()) {
    if (f.key == key) add(f.table);
  }
  for (const SpecTable& t : spec_tables()) {
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
  Author author;
  JobSpec spec;
  std::vector<FieldError> errors;
  std::vector<const SpecField*>
      written;  // what the text says; the other fields have their defaults
};

void read_unknown(std::string_view path, const std::string& key, Reading& reading) {
  const RetiredKey* retired = retired_key(path, key);
  if (retired != nullptr && reading.author == Author::kShoal) return;
  reading.errors.push_back(
      {join(path, key), retired ? std::string(retired->instead) : unknown_key(path, key)});
}

void read_table(const Json& tree, std::string_view path, Reading& reading);

void read_entry(std::string_view path, const std::string& key, const Json& value,
                Reading& reading) {
  const auto& fields = spec_fields();
  const auto f = std::ranges::find_if(
      fields, [&](const SpecField& each) { return each.table == path && each.key == key; });
  auto& errors = reading.errors;
  if (f != fields.end()) {
    reading.written.push_back(&*f);
    if (auto problem = f->read(value, reading.spec); !problem.empty())
      errors.push_back({join(path, key), problem});
    return;
  }
  const auto& tables = spec_tables();
  const auto t = std::ranges::find_if(
      tables, [&](const SpecTable& each) { return each.parent == path && each.key == key; });
  if (t == tables.end()) return read_unknown(path, key, reading);
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

// A field that could not be read keeps its default, so what validate() says of it is noise; and a
// job whose datasets could not be read does not lack data.
bool explains(const FieldError& unread, const FieldError& broken) {
  const bool is_data =
      unread.pointer.starts_with("/data/dataset") || unread.pointer.starts_with("/data/mixture");
  return broken.pointer.starts_with(unread.pointer) || (is_data && broken.pointer == "/data/train");
}

void add_broken_rules(const JobSpec& spec, Author author, std::vector<FieldError>& errors) {
  const std::size_t unread = errors.size();
  for (FieldError& broken : validate(spec, author)) {
    const bool known =
        std::any_of(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(unread),
                    [&](const FieldError& e) { return explains(e, broken); });
    if (!known) errors.push_back(std::move(broken));
  }
}

// What was written and has no effect. A text that has every field was made by
// spec_to_json(): there an ineffective field may say its default, so that a spec of
// the API can be submitted again.
void add_ineffective_options(Reading& reading) {
  const JobSpec usual = default_spec(reading.spec.sync.algorithm, reading.spec.sync.outer.method);
  const bool whole = reading.written.size() == spec_fields().size();
  for (FieldError& ineffective : ineffective_options(reading.spec)) {
    const auto written = std::find_if(
        reading.written.begin(), reading.written.end(),
        [&](const SpecField* each) { return join(each->table, each->key) == ineffective.pointer; });
    if (written == reading.written.end()) continue;
    if (whole && (*written)->write(reading.spec) == (*written)->write(usual)) continue;
    reading.errors.push_back(std::move(ineffective));
  }
}

// The choice at this place; `usual` where the text has none, or one that cannot be read, which is
// refused when its turn comes.
template <typename Choice>
Choice choice_at(const Json& root, const char* pointer, Choice usual) {
  const Json::json_pointer place(pointer);
  if (!root.contains(place) || !root.at(place).is_string()) return usual;
  return parse_enumerator<Choice>(root.at(place).get<std::string>()).value_or(usual);
}

// The algorithm and the outer optimizer are looked at before all other fields: the defaults of the
// others follow from them.
JobSpec defaults_for(const Json& root) {
  return default_spec(choice_at(root, "/sync/algorithm", SyncAlgorithm::kDiloco),
                      choice_at(root, "/sync/outer/method", OuterMethod::kNesterov));
}

SpecOrProblems read_tree(const Json& root, const std::map<std::string, TextPosition>& positions,
                         Author author) {
  Reading reading{author, defaults_for(root), {}, {}};
  read_table(root, "", reading);
  auto& errors = reading.errors;
  const bool all_read = errors.empty();
  add_broken_rules(reading.spec, author, errors);
  if (author == Author::kSubmitter && all_read) add_ineffective_options(reading);
  for (FieldError& error : errors) {
    const auto at = positions.find(error.pointer);
    if (at == positions.end()) continue;
    error.detail += " (line " + std::to_string(at->second.line) + ", column " +
                    std::to_string(at->second.column) + ")";
  }
  if (!errors.empty()) return {{}, SpecProblems{summary_of(errors), std::move(errors), false}};
  reading.spec.sync = effective_sync(reading.spec);
  return {std::move(reading.spec), {}};
}

SpecOrProblems syntax_error(std::string sentence) {
  return {{}, SpecProblems{std::move(sentence), {}, true}};
}

SpecOrProblems too_large(std::string_view text) {
  return syntax_error("a job specification may have at most 1 MiB of text, got " +
                      std::to_string(text.size()) + " bytes");
}

// "[json.exception.parse_error.101] parse error at line 1, column 5: …" without
// its tag.
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
  return read_tree(read.root, read.positions, Author::kSubmitter);
}

SpecOrProblems read_spec_json(std::string_view text) { return read_json(text, Author::kSubmitter); }

SpecOrProblems read_kept_spec(std::string_view json) { return read_json(json, Author::kShoal); }

nlohmann::ordered_json spec_to_json(const JobSpec& spec) {
  Json root = Json::object();
  for (const SpecField& f : spec_fields()) {
    const std::string pointer = join(f.table, f.key);
    root[Json::json_pointer(pointer)] = f.write(spec);
  }
  return root;
}

}  // namespace shoal::proto
