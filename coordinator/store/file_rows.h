// What the store keeps of files that people have uploaded, and of the datasets made of them. Like
// machine_rows.h these rows are not of the core's state. Their owner is
// coordinator/service/files/file_store.h.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/time.h"
#include "base/units.h"

namespace shoal::coordinator {

struct FileRecord {
  std::string sha256;  // of its content, 64 hex characters: its name
  Bytes size;
  std::string owner;  // who uploaded it first
  Instant created;
  bool complete = false;  // all of it is here, and has this hash
  bool operator==(const FileRecord&) const = default;
};
constexpr auto fields_of(Of<FileRecord>) {
  using T = FileRecord;
  return fields<&T::sha256, &T::size, &T::owner, &T::created, &T::complete>();
}

struct DatasetRecord {
  std::string name;
  std::string manifest;  // a file: data/manifest.h
  std::string owner;
  Instant created;
  bool operator==(const DatasetRecord&) const = default;
};
constexpr auto fields_of(Of<DatasetRecord>) {
  using T = DatasetRecord;
  return fields<&T::name, &T::manifest, &T::owner, &T::created>();
}

// They delete a row.
struct RemovedFile {
  std::string sha256;
};
struct RemovedDataset {
  std::string name;
};

using FileRow = std::variant<FileRecord, DatasetRecord, RemovedFile, RemovedDataset>;

struct FileTables {
  std::vector<FileRecord> files;
  std::vector<DatasetRecord> datasets;
};

}  // namespace shoal::coordinator
