# Settings for NVIDIA GPUs: the language, the architectures, and the flags of all kernels.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
enable_language(CUDA)
# Targets with kernels link the shared CUDA runtime (CUDA::cudart), because libtorch links it too and a process must
# have only one.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
# CMake 3.25 does not know the folders that nvcc searches by itself. It would pass /usr/include again, before the C++
# headers, whose #include_next then fails.
if(NOT CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES)
  set(CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
endif()
# CMake before 3.26 does not know that nvcc supports C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit 12 REQUIRED)
