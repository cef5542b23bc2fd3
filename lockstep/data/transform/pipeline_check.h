#pragma once

#include "lockstep/base/export.h"
#include "lockstep/data/field.h"
#include "lockstep/data/image.h"
#include "lockstep/data/transform/pipeline.h"

namespace lockstep::data {

/// The size of what a pipeline makes of a field's pictures.
///
/// Throws `Options`, with the step, where the pipeline cannot be applied to every picture of the
/// field or does not bring all to one size.
LOCKSTEP_PRIVATE_API ImageSize check_pipeline(const Pipeline& pipeline, const Field& image);

}  // namespace lockstep::data
