// The files of the dashboard (web/dist) as they were when this binary was built: each once as it is
// and once compressed, so that serving one is a lookup. dashboard.cc answers with them;
// embed_dashboard.cmake writes the table.
#pragma once

#include <string_view>
#include <vector>

namespace shoal::coordinator::rest {

struct DashboardFile {
  std::string_view path;    // below web/dist: "index.html", "assets/index-2f9c.js"
  std::string_view digest;  // of the identity form, hexadecimal
  std::string_view identity, gzip;
};

const std::vector<DashboardFile>& dashboard_files();

// Whether an Accept-Encoding field permits gzip: named, or "*", without a quality of zero.
bool accepts_gzip(std::string_view accept_encoding);

}  // namespace shoal::coordinator::rest
