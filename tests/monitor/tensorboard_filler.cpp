// tensorboard_filler FOLDER: writes events until the file cannot grow any more, and says why.
#include <cstdio>

#include "lockstep/monitor/export/tensorboard_writer.h"

int main(int, char** arguments) {
  lockstep::monitor::TensorBoardWriter writer(arguments[1]);
  for (int step = 0; step < 1000 && !writer.failure(); ++step) writer.add_scalar("a", step, step);
  std::puts(writer.failure().value_or("it never became full").c_str());
}
