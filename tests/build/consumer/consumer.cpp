#include <lockstep/lockstep.h>

#include <iostream>

int main() {
  const auto world = lockstep::World::init();
  int sum = world.instance() + 1;
  world.all_reduce({&sum, 1, lockstep::DataType::I32});
  std::cout << "instance " << world.instance() << " of " << world.num_instances() << ", sum " << sum
            << '\n';
}
