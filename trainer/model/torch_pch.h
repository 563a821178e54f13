// The precompiled header of the files that see libtorch; it costs seconds to parse.
#pragma once

#include <torch/torch.h>
