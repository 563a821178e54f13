#include "coordinator/service/machines/server_files.h"

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>

#include <unistd.h>

#include "identity/issue.h"
#include "identity/private_file.h"

namespace shoal::coordinator {
namespace {

std::vector<std::string> all_hosts(const std::vector<std::string>& further) {
  std::vector<std::string> hosts = {kServerName, "localhost", "127.0.0.1", "::1"};
  std::array<char, HOST_NAME_MAX + 1> own{};
  if (::gethostname(own.data(), own.size() - 1) == 0 && identity::is_host(own.data())) {
    hosts.emplace_back(own.data());
  }
  for (const std::string& host : further) {
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

std::string roots_pem(const identity::Roots& roots) {
  std::string pem;
  for (const identity::Root& root : roots) pem += root.certificate.pem();
  return pem;
}

}  // namespace

ServerFiles server_files(const std::string& folder) {
  const std::string tls = folder + "/tls";
  return {tls + "/server.key", tls + "/server.pem", tls + "/roots.pem"};
}

Result<identity::Credentials> issue_server_files(const identity::Authority& authority,
                                                 const std::string& folder,
                                                 const std::vector<std::string>& hosts,
                                                 Instant now) {
  const ServerFiles files = server_files(folder);
  std::error_code failure;
  std::filesystem::create_directories(folder + "/tls", failure);
  if (failure) {
    return Error{Code::kPermissionDenied, "cannot be made: " + failure.message(), folder + "/tls",
                 "check the permissions of the data folder"};
  }
  auto key = identity::PrivateKey::load_or_make(files.key);
  if (!key) return key.error();
  auto issued = authority.issue_server(*key, all_hosts(hosts), now);
  if (!issued) return issued.error();
  identity::Credentials own{*key, *issued, authority.chain(now)};
  std::vector<identity::Certificate> shown = {own.certificate};
  shown.insert(shown.end(), own.chain.begin(), own.chain.end());
  if (Status s = identity::write_private_file(files.roots, roots_pem(authority.roots(now)));
      !s.ok()) {
    return s.error();
  }
  if (Status s = identity::write_private_file(files.certificate, identity::to_pem(shown));
      !s.ok()) {
    return s.error();
  }
  return own;
}

}  // namespace shoal::coordinator
