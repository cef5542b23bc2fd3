#pragma once

/// The whole of lockstep for a program that trains: what needs no libtorch, and with
/// `lockstep::train` linked the training itself.

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/comm/world.h"
#include "lockstep/data/loader/loader.h"
#include "lockstep/data/sets/array_dataset.h"
#include "lockstep/data/sets/catalog.h"
#include "lockstep/data/sets/subset.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/ui/progress.h"
#include "lockstep/ui/standard_output.h"
#include "lockstep/ui/train_display.h"

#ifdef LOCKSTEP_WITH_TRAINING  // whoever links lockstep::train
#include "lockstep/nn/model_weights.h"
#include "lockstep/nn/script/script_model.h"
#include "lockstep/nn/zoo/resnet.h"
#include "lockstep/nn/zoo/zoo.h"
#include "lockstep/train/api/trainer.h"
#include "lockstep/train/api/training_model.h"
#include "lockstep/train/strategy/strategy.h"
#endif
