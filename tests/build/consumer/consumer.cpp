#include <lockstep/lockstep.h>

#include <iostream>

int main() {
  const auto world = lockstep::World::init();
  std::cout << "instance " << world.instance() << " of " << world.num_instances() << '\n';
}
