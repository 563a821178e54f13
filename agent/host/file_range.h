// Reads bytes of a file of the coordinator's store: shards and manifests of datasets, and the code
// of jobs. When to ask again is for those who ask.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "agent/host/data_source.h"
#include "agent/host/url_reader.h"

namespace shoal::agent {

// `content` gets the bytes. The caller sets the deadline of `context` and may cancel it. DATA_LOSS:
// more came than was asked for, or than a manifest may have; the call is cancelled then.
grpc::Status read_range(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                        const FileRange& range, std::string& content);

// Where the file of the range is read, which lies in an object store. UNIMPLEMENTED: the
// coordinator named no place.
grpc::Status read_url(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                      const FileRange& range, SignedUrl& place);

}  // namespace shoal::agent
