#include <lockstep/nn/model_weights.h>
#include <lockstep/nn/module_model.h>
#include <lockstep/nn/zoo/resnet.h>

#include <iostream>

int main() {
  std::cout << digest_of(*lockstep::nn::model_of(lockstep::nn::resnet20(10, {.seed = 2022})))
            << '\n';
}
