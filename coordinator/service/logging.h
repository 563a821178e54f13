// The log of the coordinator: one line per message on stderr, as text or as one JSON object. Also
// how an event record is put into one line.
#pragma once

#include <string>

#include "coordinator/core/records/records.h"

namespace shoal::coordinator {

void set_up_logging(const std::string& level, const std::string& format);  // words of Config

void log_event(const EventRecord& event);

}  // namespace shoal::coordinator
