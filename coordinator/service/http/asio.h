// The one place that includes Boost.Asio and Beast, precompiled for this folder. Asio 1.74 uses
// std::exchange without including <utility>, so that header comes first.
#pragma once

// clang-format off
#include <utility>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
// clang-format on

namespace shoal::coordinator::http_io {
namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = net::ip::tcp;
}  // namespace shoal::coordinator::http_io
