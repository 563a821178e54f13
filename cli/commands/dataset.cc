// shoal dataset …. Files are hashed here and uploaded in pieces; what the coordinator has already
// is not sent, so that the same command continues an upload that was cut off, also by another host.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/number_text.h"
#include "base/sha256.h"
#include "cli/commands/commands.h"
#include "cli/commands/dataset_files.h"
#include "cli/commands/prepared_folder.h"
#include "cli/commands/upload.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "job/data_rules.h"
#include "tokenizer/text_tokenizer.h"

namespace shoal::cli {
namespace {

Status upload_shard(const Api& api, const LocalShard& local) {
  if (!local.shard.url.empty()) return upload_text(api, local.shard.name, local.hashes);
  Status sent = upload(
      api, {local.shard.name, local.shard.sha256, local.shard.bytes},
      [&](std::int64_t from, std::int64_t count) { return read_piece(local.path, from, count); });
  if (!sent.ok()) return sent;
  return upload_text(api, local.shard.name, local.hashes);
}

// What is added: shards of one kind, and the tokenizer that made them.
struct Source {
  std::vector<std::string> files;
  Tokenizer kind = Tokenizer::kBytes;
  std::string tokenizer;  // path; empty: none
  std::optional<PreparedFolder> prepared = {};
};

Result<Source> source_of(const DatasetOptions& options, const RemoteFiles& remote) {
  const bool folder = options.files.size() == 1 && is_prepared_folder(options.files[0]);
  if (!folder) {
    auto files = remote.expanded(options.files);
    if (!files) return files.error();
    const auto kind = kind_of(options.tokens, *files);
    if (!kind) return kind.error();
    return Source{std::move(*files), *kind, options.tokenizer};
  }
  auto prepared = read_prepared_folder(options.files[0]);
  if (!prepared) return prepared.error();
  const std::string kind = to_string(prepared->tokens);
  if (!options.tokens.empty() && options.tokens != kind) {
    return Error{Code::kValidation, options.files[0] + " has tokens of " + kind, "--tokens",
                 "leave it out: the folder says it"};
  }
  return Source{prepared->shards, prepared->tokens,
                options.tokenizer.empty() ? prepared->tokenizer : options.tokenizer, *prepared};
}

struct NamedTokenizer {
  std::unique_ptr<tokenizer::TextTokenizer> tokenizer;
  std::string path, content;
};

Result<NamedTokenizer> read_tokenizer(const Source& source) {
  if (source.tokenizer.empty()) return NamedTokenizer{};
  if (source.kind == Tokenizer::kBytes) {
    return Error{Code::kValidation, "text is read byte by byte, without a tokenizer", "--tokenizer",
                 "leave it out, or make tokens first with `shoal dataset prepare`"};
  }
  auto content = tokenizer::read_tokenizer_file(source.tokenizer);
  if (!content) return content.error();
  if (content->size() > data::kManifestBytesMax) {
    return Error{Code::kValidation, source.tokenizer + " is longer than 64 MiB", "--tokenizer",
                 "name the tokenizer.json of the tokens"};
  }
  auto parsed = tokenizer::parse_tokenizer(*content, source.tokenizer);
  if (!parsed) return parsed.error();
  return NamedTokenizer{std::move(*parsed), source.tokenizer, std::move(*content)};
}

Status check_tokenizer(const NamedTokenizer& named, const std::vector<LocalShard>& shards) {
  for (const LocalShard& local : shards) {
    const data::Shard& shard = local.shard;
    if (!named.tokenizer || shard.max_token < named.tokenizer->vocabulary()) continue;
    return Error{Code::kValidation,
                 named.path + " has " + std::to_string(named.tokenizer->vocabulary()) +
                     " tokens, and the token at position " + std::to_string(shard.max_at) + " of " +
                     shard.name + " is " + std::to_string(shard.max_token),
                 "--tokenizer", "name the tokenizer that made the tokens"};
  }
  return {};
}

// What the source says, read and hashed.
struct Ready {
  Tokenizer kind = Tokenizer::kBytes;
  NamedTokenizer tokenizer;
  std::vector<LocalShard> shards;
};

Result<Ready> read_source(const DatasetOptions& options) {
  const RemoteFiles remote(options.credentials);
  const auto source = source_of(options, remote);
  if (!source) return source.error();
  auto tokenizer = read_tokenizer(*source);
  if (!tokenizer) return tokenizer.error();
  auto shards = read_shards(remote, source->files, source->kind,
                            [](const std::string& name, std::int64_t done, std::int64_t size) {
                              show_progress("reading", name, done, size);
                            });
  if (!shards) return shards.error();
  if (source->prepared) {
    if (Status s = check_prepared(*source->prepared, *shards); !s.ok()) return s.error();
  }
  if (Status s = check_tokenizer(*tokenizer, *shards); !s.ok()) return s.error();
  return Ready{source->kind, std::move(*tokenizer), std::move(*shards)};
}

// Sends what the coordinator lacks.
Result<data::Manifest> send(const Api& api, const Ready& ready) {
  data::Manifest manifest{.tokens = ready.kind, .chunk_bytes = 0, .shards = {}};
  if (ready.tokenizer.tokenizer) {
    const std::string& content = ready.tokenizer.content;
    if (Status sent = upload_text(api, "the tokenizer", content); !sent.ok()) return sent.error();
    manifest.tokenizer = sha256_of(content);
  }
  for (const LocalShard& local : ready.shards) {
    if (Status sent = upload_shard(api, local); !sent.ok()) return sent.error();
    manifest.shards.push_back(local.shard);
  }
  manifest.chunk_bytes = data::chunk_bytes_for(data::total_bytes(manifest));
  return manifest;
}

std::string path_of(const std::string& name) { return "/datasets/" + url_escape(name); }

void add_row(Table& table, const Json& dataset) {
  const Json* jobs = at_path(dataset, "jobs");
  const bool used = jobs != nullptr && jobs->is_array() && !jobs->empty();
  table.add({text_at(dataset, "name"), text_at(dataset, "kind"),
             human_count(number_at(dataset, "tokens")), text_at(dataset, "shards"),
             size_text(number_at(dataset, "size")), text_at(dataset, "owner"),
             used ? jobs->front().get<std::string>() : "-"});
}

}  // namespace

Result<int> dataset_add(const Context& context, const DatasetOptions& options) {
  catch_interrupts();
  if (!is_dataset_name(options.name)) {
    return Error{Code::kValidation, "'" + options.name + "' is not a valid name for a dataset",
                 "NAME", "use at most 63 lower-case letters, digits, '.', '_' and '-'"};
  }
  const auto ready = read_source(options);
  if (!ready) return ready.error();
  const auto manifest = send(context.api, *ready);
  if (!manifest) return manifest.error();
  const std::string text = data::to_text(*manifest);
  if (Status sent = upload_text(context.api, "the manifest", text); !sent.ok()) return sent.error();
  const Json body{{"name", options.name}, {"manifest", sha256_of(text)}};
  const auto added = context.api.post("/datasets", body.dump(), "application/json");
  if (!added) return added.error();
  if (context.json) return print(added->dump(2) + "\n"), kExitOk;
  say("Dataset " + options.name + ": " + human_count(number_at(*added, "tokens")) + " tokens in " +
      plural(static_cast<std::int64_t>(manifest->shards.size()), "shard") +
      (manifest->tokenizer.empty() ? "" : " with their tokenizer") +
      ". Train on it with data.dataset = \"" + options.name + "\".");
  return kExitOk;
}

Result<int> dataset_ls(const Context& context) {
  const auto datasets = context.api.list("/datasets");
  if (!datasets) return datasets.error();
  if (context.json) return print(datasets->dump(2) + "\n"), kExitOk;
  Table table({"NAME", "KIND", ">TOKENS", ">SHARDS", ">SIZE", "OWNER", "USED BY"});
  for (const Json& dataset : datasets->at("items")) add_row(table, dataset);
  if (table.empty()) say("No datasets yet. `shoal dataset add NAME FILES` makes one.");
  print(table.render(terminal().stdout_color));
  return kExitOk;
}

Result<int> dataset_get(const Context& context, const std::string& name) {
  auto dataset = context.api.get(path_of(name));
  if (!dataset) return dataset.error();
  const auto shards = context.api.list(path_of(name) + "/shards");
  if (!shards) return shards.error();
  if (context.json) {
    (*dataset)["shard_list"] = shards->at("items");
    return print(dataset->dump(2) + "\n"), kExitOk;
  }
  Table table({"NAME", "KIND", ">TOKENS", ">SHARDS", ">SIZE", "OWNER", "USED BY"});
  add_row(table, *dataset);
  print(table.render(terminal().stdout_color) + "\n");
  Table list({"SHARD", ">SIZE", ">LARGEST TOKEN", "SHA-256", "FROM"});
  for (const Json& shard : shards->at("items")) {
    const std::string url = text_at(shard, "url", "");
    list.add({text_at(shard, "name"), size_text(number_at(shard, "size")),
              text_at(shard, "max_token"), text_at(shard, "sha256"),
              url.empty() ? "the coordinator" : url});
  }
  print(list.render(terminal().stdout_color));
  return kExitOk;
}

namespace {

// A file of a dataset that the coordinator keeps; `what`: for people.
struct KeptFile {
  std::string what, shard, sha256;
};

Result<std::vector<KeptFile>> kept_files(const Api& api, const std::string& name) {
  const auto dataset = api.get(path_of(name));
  if (!dataset) return dataset.error();
  const auto shards = api.list(path_of(name) + "/shards");
  if (!shards) return shards.error();
  std::vector<KeptFile> files;
  const std::string tokenizer = text_at(*dataset, "tokenizer", "");
  if (!tokenizer.empty()) files.push_back({"the tokenizer", "", tokenizer});
  for (const Json& shard : shards->at("items")) {
    const std::string shard_name = text_at(shard, "name");
    for (const char* file : {"sha256", "chunks"}) {
      const bool elsewhere = file == std::string("sha256") && !text_at(shard, "url", "").empty();
      if (!elsewhere) files.push_back({"shard " + shard_name, shard_name, text_at(shard, file)});
    }
  }
  return files;
}

}  // namespace

Result<int> dataset_verify(const Context& context, const std::string& name) {
  catch_interrupts();
  const auto files = kept_files(context.api, name);
  if (!files) return files.error();
  int bad = 0;
  Json items = Json::array();
  for (const KeptFile& file : *files) {
    const auto read =
        context.api.post("/files/" + file.sha256 + "/verify", "{}", "application/json");
    const bool broken =
        !read && (read.error().code == Code::kInternal || read.error().code == Code::kNotFound);
    if (!read && !broken) return read.error();
    if (broken) {
      ++bad;
      say(file.what + ": " + read.error().message);
    }
    const Json shard = file.shard.empty() ? Json() : Json(file.shard);
    items.push_back(Json{{"shard", shard}, {"file", file.sha256}, {"ok", !broken}});
  }
  if (context.json) print(Json{{"name", name}, {"ok", bad == 0}, {"files", items}}.dump(2) + "\n");
  if (bad == 0) return say("Every file is as it was uploaded."), kExitOk;
  say("hint: `shoal dataset rm " + name + "`, then add it again");
  return kExitFailure;
}

Result<int> dataset_rm(const Context& context, const std::string& name) {
  const auto removed = context.api.remove(path_of(name));
  if (!removed) return removed.error();
  if (context.json) return print(removed->dump(2) + "\n"), kExitOk;
  say("Removed dataset " + name + ".");
  return kExitOk;
}

}  // namespace shoal::cli
