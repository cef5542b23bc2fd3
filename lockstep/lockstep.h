#pragma once

/// The whole of lockstep for a program that trains.

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/comm/local/local_group.h"
#include "lockstep/comm/sharded_update.h"
#include "lockstep/comm/world.h"
#include "lockstep/data/loader/loader.h"
#include "lockstep/data/sets/array_dataset.h"
#include "lockstep/data/sets/catalog.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/ui/progress.h"
