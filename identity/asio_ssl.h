// The one place of this folder that includes Boost.Asio. Asio 1.74 uses std::exchange without
// including <utility>, so that header comes first.
#pragma once

// clang-format off
#include <utility>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
// clang-format on
