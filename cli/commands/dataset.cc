// shoal dataset …. Files are hashed here and uploaded in pieces; what the coordinator has already
// is not sent, so that the same command continues an upload that was cut off, also by another host.
#include <algorithm>
#include <cstdio>

#include "base/number_text.h"
#include "cli/commands/commands.h"
#include "cli/commands/dataset_files.h"
#include "cli/commands/upload.h"
#include "cli/format.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "job/data_rules.h"
#include "transfer/sha256.h"

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
    return Error{Code::kValidation, "'" + options.name + "' is no name of a dataset", "NAME",
                 "use at most 63 lower-case letters, digits, '.', '_' and '-'"};
  }
  const auto kind = kind_of(options.tokens, options.files);
  if (!kind) return kind.error();
  const auto shards = read_shards(
      options.files, *kind, [](const std::string& name, std::int64_t done, std::int64_t size) {
        show_progress("reading", name, done, size);
      });
  if (!shards) return shards.error();
  data::Manifest manifest{.tokens = *kind, .chunk_bytes = 0, .shards = {}};
  for (const LocalShard& local : *shards) {
    if (Status sent = upload_shard(context.api, local); !sent.ok()) return sent.error();
    manifest.shards.push_back(local.shard);
  }
  manifest.chunk_bytes = data::chunk_bytes_for(data::total_bytes(manifest));
  const std::string text = data::to_text(manifest);
  if (Status sent = upload_text(context.api, "the manifest", text); !sent.ok()) return sent.error();
  const Json body{{"name", options.name}, {"manifest", sha256_of(text)}};
  const auto added = context.api.post("/datasets", body.dump(), "application/json");
  if (!added) return added.error();
  if (context.json) return print(added->dump(2) + "\n"), kExitOk;
  say("Dataset " + options.name + ": " + human_count(number_at(*added, "tokens")) + " tokens in " +
      plural(static_cast<std::int64_t>(manifest.shards.size()), "shard") +
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

Result<int> dataset_verify(const Context& context, const std::string& name) {
  catch_interrupts();
  const auto shards = context.api.list(path_of(name) + "/shards");
  if (!shards) return shards.error();
  int bad = 0;
  Json items = Json::array();
  for (const Json& shard : shards->at("items")) {
    for (const char* file : {"sha256", "chunks"}) {
      const bool elsewhere = file == std::string("sha256") && !text_at(shard, "url", "").empty();
      if (elsewhere) continue;
      const auto read =
          context.api.post("/files/" + text_at(shard, file) + "/verify", "{}", "application/json");
      const bool broken =
          !read && (read.error().code == Code::kInternal || read.error().code == Code::kNotFound);
      if (!read && !broken) return read.error();
      if (broken) {
        ++bad;
        say("shard " + text_at(shard, "name") + ": " + read.error().message);
      }
      items.push_back(
          Json{{"shard", text_at(shard, "name")}, {"file", text_at(shard, file)}, {"ok", !broken}});
    }
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
