# What it takes to build for NVIDIA GPUs: the language, the chips, and the flags that all kernels share.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
enable_language(CUDA)
# Whoever has kernels links CUDA::cudart, the shared one: libtorch brings it too, and there is one of it in a
# process.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
# CMake 3.25 does not find out what nvcc searches by itself. Said once more, /usr/include would come before
# the headers of C++, which look for it behind them.
if(NOT CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES)
  set(CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
endif()
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit 12 REQUIRED)
