// The one place of this folder that includes Boost.Asio. Asio 1.74 uses std::exchange without
// including <utility>, so that header comes first.
#pragma once

// clang-format off
#include <utility>
#include <boost/asio.hpp>
// clang-format on

namespace shoal::wire::stream {

namespace net = boost::asio;
using ErrorCode = boost::system::error_code;
using Descriptor = net::posix::stream_descriptor;

}  // namespace shoal::wire::stream
