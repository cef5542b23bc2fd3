#pragma once

#include <string>

#include "lockstep/train/jobs/evaluate_job.h"

namespace lockstep::cli {

/// What `lockstep eval` prints: accuracy, loss, a table of the classes, and the confusion matrix
/// or, for more than 20 classes, the most frequent confusions. It does not depend on instances,
/// replicas or time.
std::string to_text(const train::EvaluationSummary& summary);

/// Everything, for `--json`. Only the object "run" depends on instances, replicas and time. A
/// number that is not defined, such as the precision of a class that is never predicted, is null.
std::string to_json(const train::EvaluationSummary& summary);

}  // namespace lockstep::cli
